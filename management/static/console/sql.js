// The editor of the page SQL: Ctrl+Enter runs the statement, and a statement that runs cannot be sent twice.
(function () {
  "use strict";

  const form = document.querySelector("form[data-sql]");
  if (!form) return;
  const status = form.querySelector("[data-sql-status]");
  const button = form.querySelector("button[value=run]");
  let isRunning = false;

  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit(button);
  });

  form.addEventListener("submit", (event) => {
    if (isRunning) return event.preventDefault();
    if (event.submitter && event.submitter.value === "csv") return; // the page stays
    isRunning = true;
    status.textContent = status.dataset.running;
  });

  // A page that the browser shows again after "Back" is not running.
  window.addEventListener("pageshow", () => (isRunning = false));
})();
