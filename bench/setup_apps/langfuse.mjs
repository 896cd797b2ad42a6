// npm: @langfuse/tracing @langfuse/otel @opentelemetry/sdk-node
// gives: query citations response model tokens session
import { LangfuseSpanProcessor } from "@langfuse/otel";
import { propagateAttributes, startActiveObservation } from "@langfuse/tracing";
import { NodeSDK } from "@opentelemetry/sdk-node";

process.env.LANGFUSE_PUBLIC_KEY = process.env.LANGFUSE_SECRET_KEY = "any";
const processor =
  // lines
const sdk = new NodeSDK({ spanProcessors: [processor] });
sdk.start();
const { DOCUMENT, QUESTION, SESSION: sessionId, OPENAI_BASE_URL } = process.env;

const retrieve = (question) =>
  startActiveObservation(
    "retrieve",
    async (observation) => {
      const found = [{ id: "kb-1", content: DOCUMENT }];
      observation.update({ input: question, output: found });
      return found;
    },
    { asType: "retriever" },
  );

const generate = (messages) =>
  startActiveObservation(
    "generate",
    async (observation) => {
      const asked = { method: "POST", body: JSON.stringify({ model: "m", messages }) };
      const reply = await (await fetch(`${OPENAI_BASE_URL}/chat/completions`, asked)).json();
      const { prompt_tokens: input, completion_tokens: output } = reply.usage;
      const { message } = reply.choices[0];
      observation.update({ input: messages, output: message, model: reply.model, usageDetails: { input, output } });
      return message.content;
    },
    { asType: "generation" },
  );

await propagateAttributes({ sessionId, userId: "u-1" }, () =>
  startActiveObservation("answer", async (observation) => {
    const [found] = await retrieve(QUESTION);
    const system = { role: "system", content: `Answer from this: ${found.content}` };
    const output = await generate([system, { role: "user", content: QUESTION }]);
    observation.update({ input: QUESTION, output });
  }),
);
await sdk.shutdown();
