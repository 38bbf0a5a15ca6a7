// Sets formulas: [{tex, display}] on standard input, [{html} or {error}] on standard output.
import { readFileSync } from "node:fs";
import katex from "./node_modules/katex/dist/katex.mjs";

const set = ({ tex, display }) => {
  try {
    return { html: katex.renderToString(tex, { displayMode: display, throwOnError: true, strict: "ignore" }) };
  } catch (error) {
    return { error: String(error.message).replace(/\s+/g, " ") };
  }
};
process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf-8")).map(set)));
