/* Parts of a page that the server renders again every two seconds, until the part says that it is done. */
(() => {
  "use strict";
  const PAUSE_MS = 2000;

  document.querySelectorAll("[data-poll-src]").forEach((box) => {
    // The link to reload is for browsers without this script.
    box.querySelectorAll("[data-without-script]").forEach((link) => (link.hidden = true));

    async function poll() {
      if (document.hidden) return setTimeout(poll, PAUSE_MS);
      try {
        const response = await fetch(box.dataset.pollSrc, {
          headers: { "X-Requested-With": "fetch" }, credentials: "same-origin",
        });
        if (response.redirected || !response.ok) return window.location.reload();
        // HTML of this server, which escapes every text.
        box.innerHTML = await response.text();
      } catch (error) {
        return setTimeout(poll, PAUSE_MS);
      }
      if (box.querySelector("[data-poll-done]")) return window.location.reload();
      setTimeout(poll, PAUSE_MS);
    }
    setTimeout(poll, PAUSE_MS);
  });
})();
