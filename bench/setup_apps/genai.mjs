// npm: @opentelemetry/instrumentation-openai openai @opentelemetry/sdk-node @opentelemetry/exporter-trace-otlp-proto @opentelemetry/exporter-logs-otlp-proto @opentelemetry/api @opentelemetry/api-logs
// gives: query citations response model tokens session
import { trace } from "@opentelemetry/api";
import { logs } from "@opentelemetry/api-logs";
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { OpenAIInstrumentation } from "@opentelemetry/instrumentation-openai";
import { NodeSDK, logs as sdkLogs } from "@opentelemetry/sdk-node";
import { createRequire } from "node:module";

process.env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "true"; // as its name has no -genai-
const instrumentation =
  // lines
const logRecordProcessors = [new sdkLogs.BatchLogRecordProcessor({ exporter: new OTLPLogExporter() })];
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter(), logRecordProcessors, instrumentations: [instrumentation] });
sdk.start();
instrumentation.setLoggerProvider(logs.getLoggerProvider());
const { OpenAI } = createRequire(import.meta.url)("openai");
const { DOCUMENT, QUESTION, SESSION } = process.env;
await trace.getTracer("shop").startActiveSpan("turn", async (span) => {
  span.setAttribute("gen_ai.conversation.id", SESSION);
  const messages = [
    { role: "system", content: `Answer from these documents.\n\nContext:\n[kb-1] ${DOCUMENT}` },
    { role: "user", content: QUESTION },
  ];
  await new OpenAI().chat.completions.create({ model: "m", messages });
  span.end();
});
await sdk.shutdown();
