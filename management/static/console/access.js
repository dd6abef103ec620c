// Access pages: suggestions of the principal picker, and the count of changes in the matrix.
// Without it the forms are sent to search, and every change is in the preview.
(function () {
  "use strict";

  const $ = (selector, root) => (root || document).querySelector(selector);
  const $$ = (selector, root) => Array.from((root || document).querySelectorAll(selector));

  // --- Principal picker ----------------------------------------------------------------------------------------

  function setUpPicker(box) {
    const input = $("[role=combobox]", box);
    const value = $("[data-picker-value]", box);
    const shown = $("[data-picker-shown]", box);
    const list = $("[role=listbox]", box);
    let timer = 0;
    let last = 0;

    const options = () => $$("[role=option]", list);
    function close() {
      list.hidden = true;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    }
    function open() {
      list.hidden = false;
      input.setAttribute("aria-expanded", "true");
      options().forEach((option, index) => (option.id = `${list.id}-${index}`));
    }
    function choose(option) {
      value.value = option.dataset.value;
      input.value = shown.value = option.dataset.name;
      close();
    }
    function move(step) {
      const found = options();
      if (!found.length) return;
      const at = found.findIndex((option) => option.getAttribute("aria-selected") === "true");
      const next = found[(at + step + found.length) % found.length];
      found.forEach((option) => option.setAttribute("aria-selected", String(option === next)));
      input.setAttribute("aria-activedescendant", next.id);
      next.scrollIntoView({ block: "nearest" });
    }
    async function suggest() {
      const text = input.value.trim();
      const number = ++last;
      if (!text) return close();
      try {
        const url = new URL(box.dataset.src, window.location.href);
        url.searchParams.set("q", text);
        const response = await fetch(url, { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" });
        if (number !== last) return;
        if (response.redirected) return window.location.reload();
        if (!response.ok) throw new Error(String(response.status));
        list.innerHTML = await response.text(); // HTML of this server, which escapes every name
        open();
      } catch (error) {
        close(); // the form itself can search
      }
    }
    input.addEventListener("input", () => {
      value.value = "";
      const choices = $("[data-picker-choices]", box);
      if (choices) choices.remove();
      clearTimeout(timer);
      timer = setTimeout(suggest, 200);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (list.hidden) suggest();
        else move(event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Escape" && !list.hidden) {
        event.preventDefault();
        close();
      } else if (event.key === "Enter" && !list.hidden) {
        const active = $("[aria-selected=true]", list);
        if (active) {
          event.preventDefault();
          choose(active);
        }
      }
    });
    list.addEventListener("pointerdown", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) {
        event.preventDefault();
        choose(option);
      }
    });
    input.addEventListener("blur", () => setTimeout(close, 150));
  }

  // --- Matrix --------------------------------------------------------------------------------------------------

  function setUpMatrix(form) {
    const bar = $("[data-change-bar]", form);
    if (!bar) return;
    const count = $("[data-change-count]", bar);
    const boxes = $$("input[type=checkbox]", form);
    function show() {
      const changed = boxes.filter((box) => box.checked !== box.defaultChecked);
      boxes.forEach((box) => box.parentElement.classList.toggle("ik-cell--changed", box.checked !== box.defaultChecked));
      bar.hidden = changed.length === 0;
      count.textContent = changed.length === 1 ? count.dataset.one : count.dataset.many.replace("{count}", changed.length);
    }
    function move(event) {
      const cell = event.target.closest("td");
      const row = cell && cell.parentElement;
      if (!row) return;
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const rows = $$("tbody tr", form);
      let at = rows.indexOf(row);
      let column = cell.cellIndex;
      for (;;) {
        at += step[0];
        column += step[1];
        const next = rows[at] && rows[at].cells[column];
        if (!next) return;
        const box = $("input[type=checkbox]", next);
        if (box) return box.focus();
      }
    }
    form.addEventListener("change", show);
    form.addEventListener("reset", () => setTimeout(show, 0));
    form.addEventListener("keydown", move);
    count.setAttribute("role", "status");
    show();
  }

  // --- Explanation ---------------------------------------------------------------------------------------------

  function setUpExplanation(form) {
    const result = $("[data-explanation]", form.parentElement);
    const url = form.getAttribute("action"); // `form.action` is the field of that name
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const query = new URLSearchParams(new FormData(form));
      const page = `${url}?${query}`;
      if ($("[data-picker-value]", form)?.value === "" && query.get("who-text")) return (window.location.href = page);
      query.set("part", "1");
      try {
        const options = { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" };
        const response = await fetch(`${url}?${query}`, options);
        if (response.redirected || !response.ok) return (window.location.href = page);
        result.innerHTML = await response.text(); // HTML of this server, which escapes every name
      } catch (error) {
        window.location.href = page;
      }
    });
  }

  $$("[data-explain]").forEach(setUpExplanation);
  $$("[data-picker]").forEach(setUpPicker);
  $$("[data-matrix]").forEach(setUpMatrix);
})();
