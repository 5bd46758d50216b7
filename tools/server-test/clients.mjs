// Asks `candor serve` by OpenAI's client for Node, and asserts what comes back.
//
// usage: node clients.mjs URL KEY < EXPECTED: JSON with what Python's clients heard, `said` or `vectors`

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const [url, key] = process.argv.slice(2);
const expected = JSON.parse(readFileSync(0, "utf8"));
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });

if (expected.said) {
  const { said, messages, tokens, shape } = expected;
  const [{ id: model }] = (await client.models.list()).data;
  const chat = { model, messages, max_tokens: tokens };
  const whole = await client.chat.completions.create(chat);
  assert.equal(whole.choices[0].message.content, said);
  let text = "";
  for await (const chunk of await client.chat.completions.create({ ...chat, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? "";
  }
  assert.equal(text, said);

  // The helper puts the pieces together, and checks each event against what came before.
  const pieces = [];
  const stream = client.chat.completions.stream({ ...chat, stream_options: { include_usage: true } });
  stream.on("content", (piece) => pieces.push(piece));
  const final = await stream.finalChatCompletion();
  assert.equal(pieces.join(""), said);
  assert.equal(final.choices[0].message.content, said);
  assert.equal(final.usage.completion_tokens, whole.usage.completion_tokens);
  const schema = { name: "pet", schema: shape };
  const shaped = await client.chat.completions.parse({
    ...chat,
    response_format: { type: "json_schema", json_schema: schema },
  });
  assert.ok(shape.enum.includes(shaped.choices[0].message.parsed), shaped.choices[0].message.content);

  const ask = { model, input: messages[0].content, max_output_tokens: tokens };
  const response = await client.responses.create(ask);
  assert.equal(response.output_text, said);
  const events = client.responses.stream(ask);
  let delta = "";
  events.on("response.output_text.delta", (event) => (delta += event.delta));
  assert.equal((await events.finalResponse()).output_text, said);
  assert.equal(delta, said);

  // A stream that is left early ends the answer, and the next request is answered.
  const left = await client.chat.completions.create({ ...chat, max_tokens: 2000, stream: true });
  for await (const _ of left) break;
  assert.equal((await client.chat.completions.create(chat)).choices[0].message.content, said);

  await assert.rejects(
    client.responses.create({ ...ask, previous_response_id: "resp_1" }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "previous_response_id",
  );
  const wrong = new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(wrong.chat.completions.create(chat), OpenAI.AuthenticationError);
} else {
  // Without a format the client asks for base64 and reads it.
  for (const format of [{}, { encoding_format: "float" }]) {
    const made = await client.embeddings.create({ model: "any", input: expected.texts, ...format });
    assert.deepEqual(made.data.map((one) => one.embedding), expected.vectors);
  }
}
