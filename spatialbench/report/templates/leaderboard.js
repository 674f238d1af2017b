for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort"), first = button.dataset.first;
      const order = now === null ? first : now === "ascending" ? "descending" : "ascending";
      const sign = order === "ascending" ? 1 : -1;
      const key = row => row.cells[column].dataset.v;
      const rows = [...body.rows].map((row, i) => ({row, i: i, k: key(row)}));
      rows.sort((a, b) => {
        if (a.k === "" || b.k === "") return (a.k === "") - (b.k === "") || a.i - b.i;
        const x = Number(a.k), y = Number(b.k);
        const d = button.dataset.text ? (a.k < b.k ? -1 : a.k > b.k ? 1 : 0) : x - y;
        return sign * d || a.i - b.i;
      });
      for (const r of rows) body.append(r.row);
      for (const h of heads) h.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
    });
  });
}
document.documentElement.classList.add("sortable");
