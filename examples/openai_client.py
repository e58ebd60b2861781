"""Use the OpenAI client through the gateway: the conversation outgrows the context window without an error.

Needs `pip install openai` and `holdfast serve` in another terminal; HOLDFAST_URL names another gateway. With the
simulated provider (`holdfast sim --window 4000`, `serve --set upstream.openai_base_url=http://127.0.0.1:PORT/v1`)
it prints:

    40 messages were answered; the client saw no error
    the gateway had to make room: yes
"""

import os

import openai

client = openai.OpenAI(
    base_url=os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8712") + "/v1",
    api_key=os.environ.get("OPENAI_API_KEY", "none-needed-by-the-simulated-model"),
)
history: list[openai.types.chat.ChatCompletionMessageParam] = []
rescued = False
for number in range(20):
    history.append({"role": "user", "content": f"note {number}: " + "the water is deep here. " * 40})
    answered = client.chat.completions.with_raw_response.create(model="sim", messages=history, max_tokens=100)
    rescued = rescued or "x-holdfast-rescued" in answered.headers
    history.append({"role": "assistant", "content": answered.parse().choices[0].message.content})

print(f"{len(history)} messages were answered; the client saw no error")
print(f"the gateway had to make room: {'yes' if rescued else 'no'}")
