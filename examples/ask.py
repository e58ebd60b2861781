"""Send two messages to a stored session; a second process continues where the first one ended.

Run it twice: the second run continues the conversation. It prints:

    I will remember that harbour = Kiel.
    harbour = Kiel.
"""

import holdfast

print(holdfast.ask("remember harbour = Kiel", session="telegram:42", store="examples.db"))
print(holdfast.ask("what is harbour?", session="telegram:42", store="examples.db"))
