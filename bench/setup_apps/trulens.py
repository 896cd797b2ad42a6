# pip: trulens-core trulens-otel-semconv openai opentelemetry-exporter-otlp-proto-http
# gives: query citations response session
import os

from openai import OpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry import trace
from trulens.apps.app import TruApp
from trulens.core import TruSession
from trulens.core.otel.instrument import instrument
from trulens.otel.semconv.trace import SpanAttributes

# lines


class Shop:
    @instrument(
        span_type=SpanAttributes.SpanType.RETRIEVAL,
        attributes={
            SpanAttributes.RETRIEVAL.QUERY_TEXT: "question",
            SpanAttributes.RETRIEVAL.RETRIEVED_CONTEXTS: "return",
        },
    )
    def retrieve(self, question):
        return [os.environ["DOCUMENT"]]

    @instrument(
        span_type=SpanAttributes.SpanType.RECORD_ROOT,
        attributes={SpanAttributes.RECORD_ROOT.INPUT: "question", SpanAttributes.RECORD_ROOT.OUTPUT: "return"},
    )
    def answer(self, question):
        found = "\n".join(self.retrieve(question))
        messages = [{"role": "system", "content": found}, {"role": "user", "content": question}]
        return OpenAI().chat.completions.create(model="m", messages=messages).choices[0].message.content


shop = Shop()
with TruApp(shop, app_name="shop", app_version="1", main_method=shop.answer):
    with trace.get_tracer("shop").start_as_current_span("turn") as span:
        span.set_attribute("session.id", os.environ["SESSION"])
        shop.answer(os.environ["QUESTION"])
TruSession().force_flush()
