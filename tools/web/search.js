// The search of the course: everything is in this folder, nothing is asked of anyone.
const question = new URLSearchParams(location.search).get("q")?.trim() ?? "";
const say = (text) => (document.getElementById("found").textContent = text);
for (const input of document.querySelectorAll('input[name="q"]')) input.value = question;

const excerpt = (text, terms) => {
  const places = terms.map((term) => text.toLowerCase().indexOf(term.toLowerCase())).filter((place) => place >= 0);
  const start = Math.max(0, Math.min(...places, text.length) - 60);
  const from = places.length ? text.indexOf(" ", start ? start : -1) + 1 : 0;
  const part = text.slice(from, from + 200);
  return (from ? "… " : "") + (from + 200 < text.length ? `${part.slice(0, part.lastIndexOf(" "))} …` : part);
};

if (question) {
  const search = new MiniSearch({
    fields: ["title", "unit", "text"],
    storeFields: ["title", "unit", "text"],
    searchOptions: { boost: { title: 3, unit: 2 }, prefix: true, fuzzy: 0.15, combineWith: "AND" },
  });
  search.addAll(SECTIONS);
  const results = search.search(question).slice(0, 30);
  say(`${results.length === 1 ? "One section has" : `${results.length || "No"} sections have`} “${question}”.`);
  document.title = `${question} · ${document.title}`;
  const list = document.getElementById("results");
  for (const result of results) {
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: result.id, textContent: result.title });
    const unit = Object.assign(document.createElement("span"), { className: "unit", textContent: result.unit });
    const text = Object.assign(document.createElement("p"), { textContent: excerpt(result.text, result.terms) });
    item.append(link, " ", unit, text);
    list.append(item);
  }
} else {
  say("Type a word, such as “softmax” or “causal_mask”.");
}
