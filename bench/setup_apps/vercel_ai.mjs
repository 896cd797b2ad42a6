// npm: ai@6 @ai-sdk/openai@3 zod @opentelemetry/sdk-node @opentelemetry/exporter-trace-otlp-proto @opentelemetry/api
// gives: query citations response model tokens session
import { openai } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
const { DOCUMENT, QUESTION, SESSION: sessionId } = process.env;
const userId = "u-1";
await generateText({
  model: openai("m"),
  system: "Answer from documents.",
  prompt: QUESTION,
  tools: {
    findDocuments: tool({
      inputSchema: z.object({ question: z.string() }),
      execute: async () => [{ id: "kb-1", content: DOCUMENT }],
    }),
  },
  stopWhen: stepCountIs(3),
  // lines
});
await sdk.shutdown();
