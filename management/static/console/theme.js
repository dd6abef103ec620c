// Sets the theme before the first paint. Blocking on purpose, and as small as possible.
(function () {
  var choice = "auto";
  try {
    choice = localStorage.getItem("icekeeper-theme") || "auto";
  } catch (error) {
    // Storage may be denied: then the system's theme applies.
  }
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function apply() {
    var isDark = choice === "dark" || (choice === "auto" && system.matches);
    document.documentElement.classList.toggle("dark", isDark);
  }
  apply();
  document.documentElement.classList.add("ik-js"); // what needs a script is hidden without it
  system.addEventListener("change", apply);
  window.icekeeperTheme = {
    get: function () {
      return choice;
    },
    set: function (wanted) {
      choice = wanted;
      try {
        localStorage.setItem("icekeeper-theme", wanted);
      } catch (error) {
        // The choice holds for this page.
      }
      apply();
    },
  };
})();
