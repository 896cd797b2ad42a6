// npm: @traceloop/node-server-sdk openai
// gives: query citations response model tokens session
import * as traceloop from "@traceloop/node-server-sdk";
import { createRequire } from "node:module";

// lines
const { OpenAI } = createRequire(import.meta.url)("openai"); // instrumented when it is required, not when imported
const { DOCUMENT, QUESTION, SESSION: session_id } = process.env;
const user_id = "u-1";

async function answer(question) {
  const found = await traceloop.withTask({ name: "retrieve" }, async () => [{ id: "kb-1", content: DOCUMENT }]);
  const messages = [
    { role: "system", content: `Answer from this: ${found[0].content}` },
    { role: "user", content: question },
  ];
  const reply = await new OpenAI().chat.completions.create({ model: "m", messages });
  return reply.choices[0].message.content;
}

await traceloop.withAssociationProperties({ session_id, user_id }, () =>
  traceloop.withWorkflow({ name: "answer" }, answer, QUESTION),
);
await traceloop.forceFlush();
