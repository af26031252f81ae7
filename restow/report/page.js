// Hides the rows of all tables that do not have every word of the filter, or not the chosen state.
(() => {
  "use strict";
  const form = document.getElementById("filter");
  const text = document.getElementById("text");
  const state = document.getElementById("state");
  const shown = document.getElementById("shown");
  const tables = [...document.querySelectorAll("table[data-filter]")].map((table) => ({
    none: table.parentElement.nextElementSibling,
    rows: [...table.tBodies[0].rows].map((row) => ({
      row,
      text: row.textContent.toLowerCase(),
      state: row.dataset.state,
    })),
  }));

  const apply = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let visible = 0;
    let all = 0;
    for (const table of tables) {
      let left = 0;
      for (const each of table.rows) {
        const fits = (!state.value || each.state === state.value) && words.every((word) => each.text.includes(word));
        each.row.hidden = !fits;
        left += fits;
      }
      table.none.hidden = left > 0;
      visible += left;
      all += table.rows.length;
    }
    shown.value = words.length || state.value ? `${visible} of ${all} rows` : `${all} rows`;
  };

  text.addEventListener("input", apply);
  state.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
      event.preventDefault();
      text.focus();
    } else if (event.key === "Escape" && event.target === text) {
      text.value = "";
      apply();
    }
  });
  form.hidden = false;
  apply();
})();
