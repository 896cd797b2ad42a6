"""OpenTelemetry GenAI semantic conventions: `gen_ai.operation.name`, `gen_ai.provider.name` or `gen_ai.system`."""

from __future__ import annotations

from monitor.extract.convention import Convention, FacetKeys, InLanguage, Setup
from monitor.extract.genai import NAME, claims, read, role

DIALECT = Convention(
    name=NAME,
    priority=120,
    url="https://opentelemetry.io/docs/specs/semconv/gen-ai/",
    versions=(
        "1.27 to 1.41, and 0.1 of their own repository; opentelemetry-instrumentation-openai-v2 and the -genai- "
        "packages; JavaScript 0.21"
    ),
    setup=Setup(
        lines=(
            "pip install opentelemetry-instrumentation-genai-openai  # -genai-anthropic, -genai-bedrock, "
            "-genai-langchain, -genai-openai-agents, ...\n"
            "  # or -google-genai, -botocore; -openai-v2 2.4b0 does not start beside openai 3\n"
            "OpenAIInstrumentor().instrument()\n"
            "new OpenAIInstrumentation({ captureMessageContent: true })  // JavaScript; give it a logger provider"
        ),
        content="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
        remark=(
            "packages without -genai- in their name want true instead, and a log exporter; they take SPAN_ONLY with "
            "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental; beside a package for agents install the one "
            "for their client"
        ),
        session="set gen_ai.conversation.id on the span around the turn",
        elsewhere={
            "nodejs": InLanguage(content="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, and a log exporter")
        },
        documents="a span with gen_ai.operation.name=retrieval and gen_ai.retrieval.documents, content included",
    ),
    facet_keys=FacetKeys(
        arguments=("gen_ai.tool.call.arguments",),
        component=("gen_ai.tool.name",),
        reranker=("gen_ai.request.model",),
        prompt_template=("gen_ai.prompt.name",),
    ),
    claims=claims,
    role=role,
    read=read,
)
