// A conversation in Node: node node.mjs [FILE.gguf]
import { createInterface } from "node:readline/promises";
import { load } from "../candor.js";

const model = await load(process.argv[2] ?? "builtin").catch((error) => {
  console.error(`error: ${error.message}`);
  process.exit(1);
});
console.log(`${model.info.label}; an empty line ends the conversation`);
const terminal = createInterface({ input: process.stdin, output: process.stdout });
const messages = [];
for (;;) {
  const content = await terminal.question("> ").catch(() => "");
  if (!content) break;
  messages.push({ role: "user", content });
  const answer = model.chat(messages, { temperature: 0.7 });
  let text = "";
  for await (const piece of answer) {
    process.stdout.write(piece.text);
    text += piece.text;
  }
  const { tokens, decodeMs } = answer.timings;
  console.log(`\n(${tokens} tokens, ${((1000 * tokens) / decodeMs).toFixed(1)} a second)`);
  messages.push({ role: "assistant", content: text });
}
terminal.close();
await model.close();
