// Shortcuts of the keyboard: `/` searches, `?` lists them, `g` and a letter opens a page of the sidebar.
// The profile switches them off (WCAG 2.1.4): then the page has no list of them. `Ctrl K` and `Esc` always work.
(function () {
  "use strict";

  const SECOND_KEY_MS = 1500;
  const list = document.getElementById("ik-shortcuts");
  if (!list || !list.showModal) return;
  let pressedAt = -SECOND_KEY_MS;

  function openSection(key) {
    const row = list.querySelector(`[data-section-key="${CSS.escape(key)}"]`);
    if (row) window.location.assign(row.querySelector("a").href);
    return row !== null;
  }

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return; // `Esc` closes it
    const isSecond = event.timeStamp - pressedAt < SECOND_KEY_MS;
    pressedAt = -SECOND_KEY_MS;
    if (isSecond && openSection(event.key)) {
      event.preventDefault();
    } else if (event.key === "/") {
      const search = document.querySelector("[data-open-search]");
      if (!search) return;
      event.preventDefault();
      search.click();
    } else if (event.key === "?") {
      event.preventDefault();
      list.showModal();
    } else if (event.key === "g") {
      pressedAt = event.timeStamp;
    }
  });
  list.addEventListener("click", (event) => {
    if (event.target === list) list.close();
  });
})();
