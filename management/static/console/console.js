// Behaviour of the console: theme, menus, copy buttons, local times, search and the tree of the catalog.
// Pages work without it: it only saves requests and clicks.
(function () {
  "use strict";

  const $ = (selector, root) => (root || document).querySelector(selector);
  const $$ = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  // Texts come from the page, which translates them: `templates/console/parts/script_texts.html`.
  const text = (name) => ($("#ik-texts") || { dataset: {} }).dataset[name] || "";

  // --- Messages for everybody, screen readers included ---------------------------------------------------------

  let toastTimer = 0;
  function showToast(message) {
    const toast = $(".ik-toast");
    if (!toast) return;
    toast.textContent = message;
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => (toast.textContent = ""), 4000);
  }

  // --- Theme ---------------------------------------------------------------------------------------------------

  function setUpTheme() {
    const box = $("[data-theme-switch]");
    if (!box || !window.icekeeperTheme) return;
    box.hidden = false;
    const buttons = $$("[data-theme]", box);
    const mark = () =>
      buttons.forEach((button) =>
        button.setAttribute("aria-pressed", String(button.dataset.theme === window.icekeeperTheme.get()))
      );
    buttons.forEach((button) =>
      button.addEventListener("click", () => {
        window.icekeeperTheme.set(button.dataset.theme);
        mark();
      })
    );
    mark();
  }

  // --- Menus ---------------------------------------------------------------------------------------------------

  function setUpMenus() {
    const toggle = $("[data-toggle-menu]");
    const sidebar = $("#ik-sidebar");
    if (toggle && sidebar) {
      const show = (isOpen) => {
        sidebar.classList.toggle("ik-open", isOpen);
        toggle.setAttribute("aria-expanded", String(isOpen));
      };
      toggle.addEventListener("click", () => show(!sidebar.classList.contains("ik-open")));
      document.addEventListener("click", (event) => {
        if (!sidebar.contains(event.target) && !toggle.contains(event.target)) show(false);
      });
      sidebar.addEventListener("keydown", (event) => {
        if (event.key === "Escape") {
          show(false);
          toggle.focus();
        }
      });
    }
    $$("details[data-menu]").forEach((menu) => {
      document.addEventListener("click", (event) => {
        if (menu.open && !menu.contains(event.target)) menu.open = false;
      });
      menu.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && menu.open) {
          menu.open = false;
          $("summary", menu).focus();
        }
      });
    });
    const wide = window.matchMedia("(min-width: 901px)");
    const openTree = () => $$("[data-tree-panel]").forEach((panel) => (panel.open = wide.matches));
    openTree();
    wide.addEventListener("change", openTree);
  }

  // --- Copy ----------------------------------------------------------------------------------------------------

  async function copyText(copied) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(copied);
    // Without HTTPS browsers have no clipboard API.
    const area = document.createElement("textarea");
    area.value = copied;
    area.className = "ik-hidden";
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    if (!isCopied) throw new Error("not copied");
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-from]");
    if (!button) return;
    const source = button.dataset.copyFrom && document.getElementById(button.dataset.copyFrom);
    try {
      await copyText(source ? source.textContent : button.dataset.copy);
      showToast(text("copied"));
    } catch (error) {
      showToast(text("notCopied"));
    }
    button.focus();
  });

  // A form that changes what is marked asks for a mark, instead of the server.
  document.addEventListener("submit", (event) => {
    if (!$(".ik-selection", event.target)) return;
    const marks = Array.from(event.target.elements).filter((each) => each.type === "checkbox" && each.name);
    if (marks.length === 0 || marks.some((each) => each.checked)) return;
    event.preventDefault();
    showToast(text("nothingMarked"));
  });

  // --- Times in the reader's zone ------------------------------------------------------------------------------

  function localDate(at) {
    const two = (number) => String(number).padStart(2, "0");
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  }

  function setUpTimes(root) {
    $$("time[datetime]", root).forEach((element) => {
      const at = new Date(element.dateTime);
      if (!isNaN(at) && !element.dataset.isLocal) {
        element.dataset.isLocal = "1";
        element.title = `${at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" })} · ${element.title}`;
        if (/^\d{4}-\d\d-\d\d$/.test(element.textContent)) element.textContent = localDate(at);
      }
    });
  }

  // Fields are in UTC without this script. It shows them in the reader's zone, and sends UTC.
  function setUpTimeFields(root) {
    $$("input[type=datetime-local][name]", root).forEach((field) => {
      const inMinutes = (at) => at.toISOString().slice(0, 16);
      const sent = document.createElement("input");
      sent.type = "hidden";
      sent.name = field.name;
      sent.value = field.value;
      field.removeAttribute("name");
      field.after(sent);
      const given = new Date(`${field.value}Z`);
      if (!isNaN(given)) field.value = inMinutes(new Date(given - given.getTimezoneOffset() * 60000));
      field.addEventListener("input", () => {
        const at = new Date(field.value);
        sent.value = isNaN(at) ? "" : inMinutes(at);
      });
      const zone = $("[data-zone]", field.closest("label, .ik-field, .ik-inline-field") || root);
      if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone || zone.textContent;
    });
  }

  document.addEventListener("ik-refreshed", (event) => {
    setUpTimes(event.detail);
    setUpTimeFields(event.detail);
  });

  // --- One of several panels -----------------------------------------------------------------------------------

  function setUpPanels(root) {
    $$("[data-panels]", root).forEach((group) => {
      const tabs = $$("[role=tab]", group);
      const select = (wanted) => {
        tabs.forEach((tab) => {
          const isSelected = tab === wanted;
          tab.setAttribute("aria-selected", String(isSelected));
          tab.tabIndex = isSelected ? 0 : -1;
          const panel = document.getElementById(tab.getAttribute("aria-controls"));
          if (panel) panel.hidden = !isSelected;
        });
      };
      tabs.forEach((tab, index) => {
        tab.addEventListener("click", () => select(tab));
        tab.addEventListener("keydown", (event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!step) return;
          event.preventDefault();
          const next = tabs[(index + step + tabs.length) % tabs.length];
          select(next);
          next.focus();
        });
      });
      if (tabs.length) select(tabs[0]);
    });
  }

  // --- Search --------------------------------------------------------------------------------------------------

  function setUpSearch() {
    const dialog = $(".ik-palette");
    if (!dialog || !dialog.showModal) return;
    const form = $("form", dialog);
    const input = $("input", dialog);
    const results = $(".ik-palette-results", dialog);
    let last = 0;
    let timer = 0;

    function open() {
      if (!dialog.open) dialog.showModal();
      input.select();
      input.focus();
    }
    async function search() {
      const wanted = input.value.trim();
      const number = ++last;
      if (!wanted) {
        results.replaceChildren();
        return;
      }
      try {
        const url = `${form.action}?${new URLSearchParams({ q: wanted, part: "results" })}`;
        const response = await fetch(url, { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" });
        if (number !== last) return;
        if (response.redirected) return window.location.reload();
        setHtml(results, await response.text());
      } catch (error) {
        if (number === last) results.textContent = text("noResponse");
      }
    }
    function move(step) {
      const links = $$("a", results);
      if (!links.length) return;
      const at = links.findIndex((link) => link.classList.contains("ik-active"));
      const next = links[(at + step + links.length) % links.length];
      links.forEach((link) => link.classList.toggle("ik-active", link === next));
      next.scrollIntoView({ block: "nearest" });
    }
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(search, 200);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        move(event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Enter") {
        const active = $("a.ik-active", results);
        if (active) {
          event.preventDefault();
          active.click();
        }
      }
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
    $$("[data-open-search]").forEach((button) =>
      button.addEventListener("click", (event) => {
        event.preventDefault();
        open();
      }),
    );
    document.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open();
      }
    });
  }

  // --- The tree of the catalog ---------------------------------------------------------------------------------

  // HTML of this server, which escapes every name; scripts in it do not run (Content-Security-Policy).
  function setHtml(element, html) {
    element.innerHTML = html;
    setUpTimes(element);
  }

  const items = (tree) => $$("[role=treeitem]", tree).filter((item) => item.offsetParent !== null);

  async function fetchPart(url) {
    const response = await fetch(url, { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" });
    if (response.redirected) {
      window.location.reload(); // to the sign-in page
      throw new Error("signed out");
    }
    if (!response.ok) throw new Error(String(response.status));
    return response.text();
  }

  async function expand(item, isOpen) {
    const group = document.getElementById(item.getAttribute("aria-owns") || "");
    if (!group || !item.hasAttribute("aria-expanded")) return;
    item.setAttribute("aria-expanded", String(isOpen));
    group.hidden = !isOpen;
    if (!isOpen || !group.dataset.src) return;
    const source = group.dataset.src;
    delete group.dataset.src;
    const slow = setTimeout(() => (group.textContent = text("loading")), 300);
    try {
      const html = await fetchPart(source);
      clearTimeout(slow);
      setHtml(group, html);
    } catch (error) {
      clearTimeout(slow);
      group.dataset.src = source;
      item.setAttribute("aria-expanded", "false");
      group.hidden = true;
      showToast(text("levelFailed"));
    }
  }

  function focusItem(tree, item) {
    if (!item) return;
    const field = $("input", item);
    if (field) return field.focus();
    $$("[role=treeitem][tabindex='0']", tree).forEach((other) => (other.tabIndex = -1));
    item.tabIndex = 0;
    item.focus();
  }

  function onTreeKey(tree, event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input") && !["ArrowUp", "ArrowDown"].includes(event.key)) return;
    const visible = items(tree);
    const at = visible.indexOf(item);
    const isOpen = item.getAttribute("aria-expanded");
    const group = item.closest("[role=group]");
    const parent = group && $(`[aria-owns="${CSS.escape(group.id)}"]`, tree);
    const actions = {
      ArrowDown: () => focusItem(tree, visible[at + 1]),
      ArrowUp: () => focusItem(tree, visible[at - 1]),
      Home: () => focusItem(tree, visible[0]),
      End: () => focusItem(tree, visible[visible.length - 1]),
      ArrowRight: () => (isOpen === "false" ? expand(item, true) : isOpen === "true" && focusItem(tree, visible[at + 1])),
      ArrowLeft: () => (isOpen === "true" ? expand(item, false) : focusItem(tree, parent)),
      Enter: () => item.click(),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  async function onTreeClick(tree, event) {
    const toggle = event.target.closest(".ik-tree-toggle");
    if (toggle) {
      const item = $("[role=treeitem]", toggle.parentElement);
      expand(item, item.getAttribute("aria-expanded") !== "true");
      return;
    }
    const more = event.target.closest(".ik-tree-more");
    if (more) {
      const place = more.closest("li");
      more.disabled = true;
      try {
        const part = document.createElement("ul");
        setHtml(part, await fetchPart(more.dataset.src));
        const first = $("[role=treeitem]", part);
        place.replaceWith(...part.children);
        focusItem(tree, first);
      } catch (error) {
        more.disabled = false;
        showToast(text("moreFailed"));
      }
    }
  }

  // Large levels begin with a filter: its results take the place of the nodes below it.
  async function filterLevel(tree, input) {
    const wanted = input.value.trim();
    const part = document.createElement("ul");
    try {
      setHtml(part, await fetchPart(`${input.dataset.src}&${new URLSearchParams({ q: wanted })}`));
    } catch (error) {
      showToast(text("levelFailed"));
      return;
    }
    if (input.value.trim() !== wanted) return; // the text was changed meanwhile
    const place = input.closest("li");
    while (place.nextSibling) place.nextSibling.remove();
    place.after(...part.childNodes);
    const first = $("[role=treeitem]", tree);
    if (first && !$("[role=treeitem][tabindex='0']", tree)) first.tabIndex = 0;
  }

  function onTreeInput(tree, event) {
    const input = event.target.closest(".ik-tree-filter input");
    if (!input) return;
    clearTimeout(input.timer);
    input.timer = setTimeout(() => filterLevel(tree, input), 200);
  }

  async function setUpTree() {
    const box = $("[data-tree-src]");
    if (!box) return;
    box.addEventListener("click", (event) => onTreeClick(box, event));
    box.addEventListener("input", (event) => onTreeInput(box, event));
    box.addEventListener("keydown", (event) => onTreeKey(box, event));
    try {
      setHtml(box, await fetchPart(box.dataset.treeSrc));
    } catch (error) {
      return; // The path to the page, which the server rendered, stays.
    }
    const selected = $("[aria-selected=true]", box);
    const first = selected || $("[role=treeitem]", box);
    if (first) first.tabIndex = 0;
    if (selected) selected.scrollIntoView({ block: "nearest" });
  }

  setUpTheme();
  setUpMenus();
  $$(".ik-tabs [aria-current]").forEach((tab) => tab.scrollIntoView({ block: "nearest", inline: "center" }));
  setUpTimes(document);
  setUpTimeFields(document);
  setUpPanels(document);
  setUpSearch();
  setUpTree();
})();
