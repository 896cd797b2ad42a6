// npm: genkit @genkit-ai/compat-oai @opentelemetry/sdk-node @opentelemetry/exporter-trace-otlp-proto @opentelemetry/api
// gives: query citations response model tokens session
import { openAI } from "@genkit-ai/compat-oai/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { Document, genkit, z } from "genkit";

// lines
const { DOCUMENT, QUESTION, SESSION: sessionId } = process.env;
const ai = genkit({ plugins: [openAI()] });
const shelf = ai.defineRetriever({ name: "shelf" }, async () => ({
  documents: [Document.fromText(DOCUMENT, { id: "kb-1" })],
}));
const inputSchema = z.object({ question: z.string(), sessionId: z.string(), userId: z.string() });
const answer = ai.defineFlow({ name: "answer", inputSchema, outputSchema: z.string() }, async ({ question }) => {
  const docs = await ai.retrieve({ retriever: shelf, query: question });
  return (await ai.generate({ model: openAI.model("m"), prompt: question, docs })).text;
});
await answer({ question: QUESTION, sessionId, userId: "u-1" });
await new Promise((done) => setTimeout(done, 7000)); // batches leave every five seconds; the SDK is the page's own
