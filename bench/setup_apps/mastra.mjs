// npm: @mastra/core@latest @mastra/observability@latest @mastra/otel-exporter@latest @ai-sdk/openai zod @opentelemetry/exporter-trace-otlp-proto
// gives: app release query citations response model tokens session
import { openai } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { z } from "zod";

const exporter =
  // lines
const { DOCUMENT, QUESTION, SESSION: sessionId } = process.env;
const findDocuments = createTool({
  id: "find-documents",
  description: "Find documents of the shop",
  inputSchema: z.object({ question: z.string() }),
  execute: async () => [{ id: "kb-1", content: DOCUMENT }],
});
const agent = new Agent({
  id: "helpdesk",
  name: "helpdesk",
  instructions: "Answer from documents.",
  model: openai("m"),
  tools: { findDocuments },
});
const observability = new Observability({ configs: { otel: { serviceName: "shop", exporters: [exporter] } } });
const mastra = new Mastra({ agents: { helpdesk: agent }, observability });
await mastra.getAgent("helpdesk").generate(QUESTION, { tracingOptions: { metadata: { sessionId, userId: "u-1" } } });
await observability.shutdown();
