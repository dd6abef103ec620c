// Forms with validation: results appear beside the form, which keeps what was entered, secrets included.
// Without this script the server renders the whole page again, without the secrets.
(function () {
  "use strict";

  const $ = (selector, root) => (root || document).querySelector(selector);
  const $$ = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  // Texts come from the page, which translates them: `templates/console/parts/script_texts.html`.
  const text = (name) => ($("#ik-texts") || { dataset: {} }).dataset[name] || "";
  let isRunning = false;

  async function post(form, button) {
    const data = new FormData(form);
    if (button && button.name) data.set(button.name, button.value);
    const response = await fetch((button && button.getAttribute("formaction")) || form.getAttribute("action"), {
      method: "POST",
      body: new URLSearchParams(data),
      credentials: "same-origin",
      headers: { "X-Requested-With": "fetch" },
    });
    if (response.redirected) {
      window.location.assign(response.url);
      return null;
    }
    return new DOMParser().parseFromString(await response.text(), "text/html");
  }

  // --- Progress -------------------------------------------------------------------------------------------------

  function showProgress(form) {
    const list = $("[data-checks]", form);
    const status = list && $("[role=status]", list);
    $$("button", form).forEach((each) => (each.disabled = true));
    if (!status) return () => undefined;
    const began = Date.now();
    const before = $$(".ik-checks-row", list);
    before.forEach((row) => (row.className = "ik-checks-row ik-checks-row--running"));
    $$(".ik-checks-time", list).forEach((each) => (each.textContent = "…"));
    status.textContent = text("validating");
    const timer = setInterval(() => {
      status.textContent = `${text("validating")} ${Math.round((Date.now() - began) / 1000)} s`;
    }, 1000);
    return () => clearInterval(timer);
  }

  // --- Results --------------------------------------------------------------------------------------------------

  function showErrors(form, page) {
    $$("[data-field]", form).forEach((field) => {
      const found = $(`[data-field="${CSS.escape(field.dataset.field)}"]`, page);
      const errors = found && $("[data-errors]", found);
      const place = $("[data-errors]", field);
      place.replaceChildren(...(errors ? Array.from(errors.children) : []));
      const input = $("input, select, textarea", field);
      const theirs = found && $("input, select, textarea", found);
      if (!input) return;
      ["aria-invalid", "aria-describedby"].forEach((name) => {
        if (theirs && theirs.hasAttribute(name)) input.setAttribute(name, theirs.getAttribute(name));
        else input.removeAttribute(name);
      });
      const section = field.closest("details");
      if (place.children.length && section) section.open = true;
    });
  }

  function showNotes(form, page) {
    const fields = $("[data-form-fields]", form);
    if (!fields) return;
    $$(":scope > .ik-note", fields).forEach((each) => each.remove());
    $$("[data-form-fields] > .ik-note", page).reverse().forEach((each) => fields.prepend(each));
  }

  async function submitChecked(form, button) {
    if (isRunning) return;
    isRunning = true;
    const stop = showProgress(form);
    try {
      const page = await post(form, button);
      if (page === null) return;
      const checks = $("[data-checks]", page);
      if (!checks) {
        document.documentElement.replaceWith(document.adoptNode(page.documentElement));
        return;
      }
      $("[data-checks]", form).replaceChildren(...checks.childNodes);
      showErrors(form, page);
      showNotes(form, page);
      const version = $("input[name=version]", page);
      if (version && $("input[name=version]", form)) $("input[name=version]", form).value = version.value;
      const failed = $(".ik-checks-row--failed", form);
      if (failed) failed.scrollIntoView({ block: "nearest" });
      const first = $("[aria-invalid=true]", form);
      if (first) first.focus({ preventScroll: false });
    } catch (error) {
      const status = $("[data-checks] [role=status]", form);
      if (status) status.textContent = text("noResponse");
    } finally {
      stop();
      isRunning = false;
      $$("button", form).forEach((each) => (each.disabled = false));
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-checked-form]");
    const button = event.submitter;
    if (!form || (button && button.value === "show")) return;
    event.preventDefault();
    submitChecked(form, button);
  });

  // --- Import ---------------------------------------------------------------------------------------------------

  function secretOf(document_, names) {
    const credential = document_ && document_["storage-credential"];
    const found = credential && names.map((name) => credential[name]).find((value) => value !== undefined && value !== null);
    return found === undefined || found === null ? "" : typeof found === "string" ? found : JSON.stringify(found, null, 2);
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-import]");
    if (!form) return;
    event.preventDefault();
    const area = $("textarea", form);
    let entered = null;
    try {
      entered = JSON.parse(area.value);
    } catch (error) {
      entered = null; // The server says what is wrong with it.
    }
    const page = await post(form, event.submitter);
    if (page === null) return;
    const main = $("#ik-main", page);
    if (!main) return;
    $$("script", main).forEach((each) => each.remove());
    $("#ik-main").replaceChildren(...main.childNodes);
    $$("[data-secret]", $("#ik-main")).forEach((input) => {
      input.value = secretOf(entered, input.dataset.secret.split(" "));
    });
    showVariants();
    const note = $("[data-secrets-lost]");
    if (note && $$("[data-secret]").some((input) => input.value)) note.remove();
    const url = $("[data-checked-form]");
    if (url) window.history.replaceState(null, "", url.getAttribute("action"));
  });

  // --- Selection ------------------------------------------------------------------------------------------------

  $$("[data-choose-all]").forEach((all) => {
    const boxes = $$("input[name=target]", all.closest("table"));
    all.hidden = false;
    all.addEventListener("change", () => boxes.forEach((box) => (box.checked = all.checked)));
    boxes.forEach((box) => box.addEventListener("change", () => (all.checked = boxes.every((each) => each.checked))));
  });

  // --- Fields that depend on others -----------------------------------------------------------------------------

  function showVariants() {
    $$("[data-variants]").forEach((input) => {
      const choice = document.getElementsByName(input.dataset.choice)[0];
      const field = input.closest("[data-field]");
      if (choice && field) field.hidden = !input.dataset.variants.split(" ").includes(choice.value);
    });
  }
  document.addEventListener("change", showVariants);
  showVariants();
})();
