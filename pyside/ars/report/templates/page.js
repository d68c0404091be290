(() => {
  "use strict";
  const root = document.documentElement;

  // ---- theme: that of the system until the reader chooses
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("ars-theme"); } catch { return null; } };
  const button = document.querySelector("button.theme");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  if (stored()) root.dataset.theme = stored();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("ars-theme", root.dataset.theme); } catch { /* a file may not store anything */ }
    label();
  });
  system.addEventListener("change", label);
  label();

  // ---- tabs
  for (const tabs of document.querySelectorAll(".tabs")) {
    const panels = [...tabs.children];
    const list = document.createElement("div");
    list.className = "tablist";
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", tabs.dataset.label);
    const buttons = panels.map((panel) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.id = `${panel.id}-tab`;
      tab.textContent = panel.dataset.title;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", panel.id);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      list.append(tab);
      return tab;
    });
    const show = (index, focus) => {
      buttons.forEach((tab, i) => {
        tab.setAttribute("aria-selected", String(i === index));
        tab.tabIndex = i === index ? 0 : -1;
        panels[i].hidden = i !== index;
      });
      if (focus) buttons[index].focus();
    };
    buttons.forEach((tab, i) => {
      tab.addEventListener("click", () => show(i, false));
      tab.addEventListener("keydown", (event) => {
        const last = buttons.length - 1;
        const to = { ArrowRight: i === last ? 0 : i + 1, ArrowLeft: i === 0 ? last : i - 1, Home: 0, End: last }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        show(to, true);
      });
    });
    tabs.prepend(list);
    show(0, false);
  }

  // ---- tables: sort by a column, numbers as numbers; unknown values last, whatever the direction
  const key = (row, column) => row.cells[column].dataset.sort;
  const compare = (numeric, sign) => (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    return sign * (numeric ? Number(a) - Number(b) || 0 : a.localeCompare(b, undefined, { numeric: true }));
  };
  for (const table of document.querySelectorAll(".data table")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const sorter = document.createElement("button");
      sorter.type = "button";
      sorter.append(...head.childNodes);
      head.append(sorter);
      const values = [...body.rows].map((row) => key(row, column)).filter((value) => value !== "");
      const infinite = { inf: "Infinity", "-inf": "-Infinity" };
      const numeric = values.every((value) => value in infinite || !Number.isNaN(Number(value)));
      sorter.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const order = compare(numeric, up ? 1 : -1);
        const plain = (row) => { const value = key(row, column); return infinite[value] ?? value; };
        body.append(...[...body.rows].sort((a, b) => order(plain(a), plain(b))));
      });
    });
  }
  for (const input of document.querySelectorAll(".filter input")) {
    const rows = [...document.getElementById(input.dataset.table).tBodies[0].rows];
    const count = input.parentElement.querySelector(".count");
    input.parentElement.hidden = false;
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      const left = rows.filter((row) => !row.hidden).length;
      count.textContent = wanted ? `${left} of ${rows.length}` : "";
    });
  }
})();
