// What the package's types say, held against how it is used. Nothing here runs: the compiler reads it.
import { fit, load, models, type Answer, type Fit, type Likely, type Model, type Operation, type Traced } from "candor";
import { languageModel, type LanguageModelSession } from "candor/language-model";
import { openai, type ChatCompletion, type ChatCompletionChunk } from "candor/openai";

/** Both types are the same. */
function same<A, B>(..._: (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? [] : ["other types"]): void {}

export async function used(file: File, signal: AbortSignal): Promise<void> {
  const model = await load("https://example.org/model.gguf", {
    device: "auto",
    signal,
    adapters: [{ source: file }, { source: new URL("https://example.org/lora.gguf"), scale: 0.5 }],
    onProgress: ({ loaded, total }) => same<[typeof loaded, typeof total], [number, number | undefined]>(),
  });
  same<typeof model, Model>();
  const answer = model.chat([{ role: "user", content: "Hi", name: "me" }], { temperature: 0, logprobs: 2, logitBias: [[1, false], [2, 0.5]] });
  same<typeof answer, Answer>();
  for await (const { text, token, logprobs } of answer) {
    same<typeof text, string>();
    same<typeof token, number | null>();
    same<typeof logprobs, (Likely & { top_logprobs: Likely[] }) | undefined>();
  }
  same<typeof answer.stopReason, "end" | "maxTokens" | "stop" | "contextFull" | "aborted" | undefined>();
  const ids = await model.tokenize([{ role: "user", content: "Hi" }]);
  same<typeof ids, number[]>();
  const logits = await model.logits(ids, { signal });
  same<typeof logits, Float32Array>();
  const saved = await model.saveSession();
  const loaded = await model.loadSession(saved);
  same<typeof loaded, number[]>();
  const { ok, operations, failure } = await model.verify();
  same<[typeof ok, typeof operations, typeof failure], [boolean, Operation[], string | null]>();
  const traced = await model.trace("Hi", { names: ["Qcur"], limit: 2 });
  same<typeof traced, Traced[]>();
  const [vectors, vector] = [await model.embed(["a", "b"]), await model.embed("a")];
  same<[typeof vectors, typeof vector], [Float32Array[], Float32Array]>();

  const fits = await fit(file, { context: 1024, device: "gpu", software: true, signal });
  same<typeof fits, Fit>();
  if (fits.gpu) same<typeof fits.gpu.largestBuffer, number>();

  const client = openai(model);
  const whole = await client.chat.completions.create({ messages: [{ role: "user", content: "Hi" }], max_tokens: 5 });
  same<typeof whole, ChatCompletion>();
  const chunks = await client.chat.completions.create({ messages: [], stream: true }, { signal });
  same<typeof chunks, AsyncGenerator<ChatCompletionChunk>>();

  const LanguageModel = languageModel("builtin", { context: 512 });
  const session = await LanguageModel.create({
    initialPrompts: [{ role: "system", content: "Be kind." }],
    monitor: (m) => m.addEventListener("downloadprogress", () => {}),
  });
  same<typeof session, LanguageModelSession>();
  same<ReturnType<typeof session.promptStreaming>, ReadableStream<string>>();

  // @ts-expect-error no such option
  await load("builtin", { contxt: 5 });
  // @ts-expect-error no such source
  await fit(5);
  // @ts-expect-error a name is no number
  model.chat([], { logprobs: "2" });
  // @ts-expect-error no such field
  await client.chat.completions.create({ messages: [], tools: [] });
  // @ts-expect-error no such option
  await LanguageModel.create({ tools: [] });
  // @ts-expect-error it can't be written
  session.contextUsage = 5;
  // @ts-expect-error a signal is each conversation's own
  languageModel("builtin", { signal });
  await models.delete("https://example.org/model.gguf");
}
