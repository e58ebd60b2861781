"""Ask, and ask again: the session is kept, so a second process goes on where the first one ended.

Run it twice: the second time it is the same conversation. It prints:

    I will remember that harbour = Kiel.
    harbour = Kiel.
"""

import holdfast

print(holdfast.ask("remember harbour = Kiel", session="telegram:42", store="examples.db"))
print(holdfast.ask("what is harbour?", session="telegram:42", store="examples.db"))
