// Draws the page, and draws charts anew when their width changes.
function footer() {
  const left = data.places.filter((place) => place.known_rows > place.sample.length).length;
  const lines = [
    `Elements are shown for the first ${data.shown} of a row${left ? `, and for some of the rows (${several(left, "value")} have more than this page holds)` : ""}; statistics, histograms and residuals are over everything in the trace.`,
    "This file is complete: it loads nothing and sends nothing.",
  ];
  document.getElementById("footer").append(...lines.map((line) => el("p", {}, line)));
}

/** The value that comes closest to its gate. */
function farthest() {
  const share = ({ check }) => (check.residual.relative ?? Infinity) / check.gate.pass;
  const checked = data.places.filter((place) => place.check);
  return checked.reduce((best, place) => (best && share(best) >= share(place) ? best : place), null)?.key;
}

facts();
story();
legend();
map();
footer();
arrange();
open([location.hash.slice(1), verdict?.first_wrong, farthest(), data.places[0]?.key].find((key) => cells.has(key)), { user: false });
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnWidth || !opened) return;
  drawnWidth = window.innerWidth;
  arrange();
  draw();
});
