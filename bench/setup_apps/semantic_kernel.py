# pip: semantic-kernel opentelemetry-exporter-otlp
# gives: query citations response asked_model tokens session
import asyncio
import json
import logging
import os

from opentelemetry import trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import set_tracer_provider
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function

provider, logs = TracerProvider(), LoggerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
logs.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter()))
# lines
logging.getLogger().addHandler(LoggingHandler(logger_provider=logs))
logging.getLogger().setLevel(logging.INFO)


class Shelf:
    @kernel_function(description="Find documents of the shop")
    def find_documents(self, question: str) -> str:
        return json.dumps([{"id": "kb-1", "content": os.environ["DOCUMENT"]}])


async def answer(question):
    kernel, model = Kernel(), OpenAIChatCompletion(ai_model_id="m")
    kernel.add_plugin(Shelf(), "shelf")
    history = ChatHistory(system_message="Answer from documents.")
    history.add_user_message(question)
    settings = OpenAIChatPromptExecutionSettings(function_choice_behavior=FunctionChoiceBehavior.Auto())
    with trace.get_tracer("shop").start_as_current_span("turn") as span:
        span.set_attribute("session.id", os.environ["SESSION"])
        await model.get_chat_message_content(history, settings, kernel=kernel)


asyncio.run(answer(os.environ["QUESTION"]))
logs.force_flush()
