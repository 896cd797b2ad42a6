// npm: langsmith openai @opentelemetry/sdk-trace-base @opentelemetry/resources @opentelemetry/exporter-trace-otlp-proto @opentelemetry/context-async-hooks @opentelemetry/api
// gives: query citations response model tokens session
import { trace } from "@opentelemetry/api";
import { defaultResource, detectResources, envDetector } from "@opentelemetry/resources";
import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import { Client } from "langsmith";
import { LangSmithOTLPTraceExporter } from "langsmith/experimental/otel/exporter";
import { LangSmithOTLPSpanProcessor } from "langsmith/experimental/otel/processor";
import { initializeOTEL } from "langsmith/experimental/otel/setup";
import { traceable } from "langsmith/traceable";
import { wrapOpenAI } from "langsmith/wrappers";
import OpenAI from "openai";

const resource = defaultResource().merge(detectResources({ detectors: [envDetector] }));
const spanProcessors = [new LangSmithOTLPSpanProcessor(new LangSmithOTLPTraceExporter())];
const provider = new BasicTracerProvider({ resource, spanProcessors });
trace.setGlobalTracerProvider(provider);
// lines
const { DOCUMENT, QUESTION, SESSION: session_id } = process.env;
const client = new Client();
const model = wrapOpenAI(new OpenAI(), { client });
const retrieve = traceable(async (question) => [{ page_content: DOCUMENT, metadata: { id: "kb-1" } }], {
  name: "retrieve",
  run_type: "retriever",
  client,
});
const answer = traceable(
  async (question) => {
    const [found] = await retrieve(question);
    const messages = [
      { role: "system", content: `Answer from this: ${found.page_content}` },
      { role: "user", content: question },
    ];
    return (await model.chat.completions.create({ model: "m", messages })).choices[0].message.content;
  },
  { name: "answer", client, metadata: { session_id, user_id: "u-1" } },
);
await answer(QUESTION);
await client.awaitPendingTraceBatches();
await provider.forceFlush();
