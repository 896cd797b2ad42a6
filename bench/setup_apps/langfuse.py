# pip: langfuse openai
# gives: query citations response model tokens session
import os

from langfuse import Langfuse, get_client, observe, propagate_attributes
from langfuse.openai import OpenAI

# lines


@observe(as_type="retriever")
def retrieve(question):
    return [{"id": "kb-1", "content": os.environ["DOCUMENT"]}]


@observe
def answer(question):
    messages = [
        {"role": "system", "content": f"Answer from this: {retrieve(question)[0]['content']}"},
        {"role": "user", "content": question},
    ]
    return OpenAI().chat.completions.create(model="m", messages=messages).choices[0].message.content


with propagate_attributes(session_id=os.environ["SESSION"], user_id="u-1"):
    answer(os.environ["QUESTION"])
get_client().flush()
