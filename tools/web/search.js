// Searches the course with files of this folder only; it sends no request.
const question = new URLSearchParams(location.search).get("q")?.trim() ?? "";
const MOST = 30;
const say = (text) => (document.getElementById("found").textContent = text);
for (const input of document.querySelectorAll('input[name="q"]')) input.value = question;

const excerpt = (text, terms) => {
  const places = terms.map((term) => text.toLowerCase().indexOf(term.toLowerCase())).filter((place) => place >= 0);
  const start = Math.max(0, Math.min(...places, text.length) - 60);
  const from = places.length ? text.indexOf(" ", start ? start : -1) + 1 : 0;
  const part = text.slice(from, from + 200);
  return (from ? "… " : "") + (from + 200 < text.length ? `${part.slice(0, part.lastIndexOf(" "))} …` : part);
};

// The text, split and marked at what was found.
const marked = (text, terms) => {
  const plain = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const parts = text.split(new RegExp(`(${plain.join("|")})`, "gi"));
  return parts.map((part, i) => (i % 2 ? Object.assign(document.createElement("mark"), { textContent: part }) : part));
};

if (question) {
  const search = new MiniSearch({
    fields: ["title", "unit", "text"],
    storeFields: ["title", "unit", "text"],
    searchOptions: { boost: { title: 3, unit: 2 }, prefix: true, fuzzy: 0.15, combineWith: "AND" },
  });
  search.addAll(SECTIONS);
  const found = search.search(question);
  const results = found.slice(0, MOST);
  const first = found.length > MOST ? ` Here are the ${MOST} that fit best.` : "";
  say(`${found.length === 1 ? "One section has" : `${found.length || "No"} sections have`} “${question}”.${first}`);
  document.title = `${question} · ${document.title}`;
  const list = document.getElementById("results");
  for (const result of results) {
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: result.id, textContent: result.title });
    const unit = Object.assign(document.createElement("span"), { className: "unit", textContent: result.unit });
    const text = document.createElement("p");
    text.append(...marked(excerpt(result.text, result.terms), result.terms));
    item.append(link, " ", unit, text);
    list.append(item);
  }
} else {
  say("Type a word, such as “softmax” or “causal_mask”.");
}
