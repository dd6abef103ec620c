// Live parts of the pages about operations: each fetches itself again every few seconds while the page is visible.
// What the user has chosen, opened or focused stays. Without this script the pages are plain.
(function () {
  "use strict";

  const $$ = (selector, root) => Array.from((root || document).querySelectorAll(selector));

  // --- What a refresh must not change ---------------------------------------------------------------------------

  const nameOf = (element) => [element.tagName, element.name, element.value, element.getAttribute("href")].join("|");

  function remember(part) {
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    return {
      checked: new Set($$("input[type=checkbox]:checked", part).map((box) => `${box.name}=${box.value}`)),
      open: new Set($$("details[open][id]", part).map((each) => each.id)),
      focused: focused && (focused.id ? `#${CSS.escape(focused.id)}` : nameOf(focused)),
      scrolled: $$(".ik-scroll", part).map((each) => each.scrollLeft),
    };
  }

  function restore(part, before) {
    $$("input[type=checkbox]", part).forEach((box) => (box.checked = before.checked.has(`${box.name}=${box.value}`)));
    $$("details[id]", part).forEach((each) => (each.open = before.open.has(each.id)));
    $$(".ik-scroll", part).forEach((each, index) => (each.scrollLeft = before.scrolled[index] || 0));
    $$("input[data-choose-all]", part).forEach((box) => (box.hidden = false));
    if (!before.focused) return;
    const again = before.focused.startsWith("#")
      ? part.querySelector(before.focused)
      : $$("a, button, input, summary", part).find((each) => nameOf(each) === before.focused);
    if (again) again.focus({ preventScroll: true });
  }

  // --- Refresh --------------------------------------------------------------------------------------------------

  async function refresh(part) {
    const response = await fetch(part.dataset.liveSrc, {
      credentials: "same-origin",
      headers: { "X-Requested-With": "poll" },
    });
    if (response.redirected) {
      window.location.reload();
      return;
    }
    if (!response.ok) throw new Error(String(response.status));
    const text = await response.text();
    if (text === part.dataset.lastText) return;
    const before = remember(part);
    part.dataset.lastText = text;
    part.innerHTML = text; // HTML of this server, which escapes every name; scripts in it do not run.
    restore(part, before);
    document.dispatchEvent(new CustomEvent("ik-refreshed", { detail: part }));
  }

  function keepFresh(part) {
    if (!part.dataset.liveSrc) return;
    const pause = Number(part.dataset.liveSeconds) * 1000;
    let failures = 0;
    let timer = 0;
    const schedule = () => {
      clearTimeout(timer);
      if (!document.hidden) timer = setTimeout(run, pause * Math.min(2 ** failures, 12));
    };
    async function run() {
      try {
        await refresh(part);
        failures = 0;
      } catch (error) {
        failures += 1;
      }
      schedule();
    }
    document.addEventListener("visibilitychange", schedule);
    schedule();
  }

  // --- Choice of all rows ---------------------------------------------------------------------------------------

  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-choose-all]");
    if (!all) return;
    $$(`input[name="${all.dataset.chooseAll}"]`, all.closest("table")).forEach((box) => (box.checked = all.checked));
  });

  // --- Work in parts --------------------------------------------------------------------------------------------

  $$("form[data-auto-continue]").forEach((form) => setTimeout(() => form.requestSubmit(), 100));

  $$("[data-live-src]").forEach(keepFresh);
  $$("input[data-choose-all]").forEach((box) => (box.hidden = false));
})();
