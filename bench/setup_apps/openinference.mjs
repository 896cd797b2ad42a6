// npm: @arizeai/openinference-instrumentation-langchain @arizeai/openinference-core @langchain/core @langchain/openai @opentelemetry/sdk-node @opentelemetry/exporter-trace-otlp-proto @opentelemetry/api
// gives: query citations response model tokens session
import { setSession } from "@arizeai/openinference-core";
import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import * as callbackManagerModule from "@langchain/core/callbacks/manager";
import { BaseRetriever } from "@langchain/core/retrievers";
import { RunnableLambda } from "@langchain/core/runnables";
import { ChatOpenAI } from "@langchain/openai";
import { context } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeSDK } from "@opentelemetry/sdk-node";

const { DOCUMENT, QUESTION, SESSION: sessionId, OPENAI_BASE_URL: baseURL } = process.env;
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
// lines

class Shelf extends BaseRetriever {
  lc_namespace = ["shop"];
  async _getRelevantDocuments() {
    return [{ pageContent: DOCUMENT, metadata: { id: "kb-1" } }];
  }
}

const model = new ChatOpenAI({ model: "m", configuration: { baseURL } });
const answer = RunnableLambda.from(async (question, config) => {
  const [found] = await new Shelf().invoke(question, config);
  const messages = [["system", `Answer from this: ${found.pageContent}`], ["user", question]];
  const reply = await model.invoke(messages, config);
  return reply.content;
});
await context.with(setSession(context.active(), { sessionId }), () => answer.invoke(QUESTION));
await sdk.shutdown();
