// npm: ai@7 @ai-sdk/openai @ai-sdk/otel zod @opentelemetry/sdk-node @opentelemetry/exporter-trace-otlp-proto @opentelemetry/api
// gives: query citations response model tokens
// lines: none
import { openai } from "@ai-sdk/openai";
import { OpenTelemetry } from "@ai-sdk/otel";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { generateText, registerTelemetry, stepCountIs, tool } from "ai";
import { z } from "zod";

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
registerTelemetry(new OpenTelemetry());
const { DOCUMENT, QUESTION } = process.env;
await generateText({
  model: openai("m"),
  instructions: "Answer from documents.",
  prompt: QUESTION,
  tools: {
    findDocuments: tool({
      inputSchema: z.object({ question: z.string() }),
      execute: async () => [{ id: "kb-1", content: DOCUMENT }],
    }),
  },
  stopWhen: stepCountIs(3),
});
await sdk.shutdown();
