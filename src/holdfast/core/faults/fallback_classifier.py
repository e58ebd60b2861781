"""Fallback classifier: a word model for errors that no rule matches.

The status alone was wrong for more than half of the errors that the rules had not seen. So the words vote, each with a
weight for some of the kinds (`WEIGHTS`), fitted to the error responses in the tests. The result is a guess, and nothing
is learned from it.
"""

from collections.abc import Collection, Mapping
from functools import cache

from holdfast.core.faults.body import Evidence
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import FaultKind

# --- Weights: for or against each kind, in tenths of a natural logarithm ---

WEIGHTS = """
200=a-11b-15c-19d-14e-16f-15g-7h8i-15j-23k-19l-21m9n22o-12
400=a9c9d-9e-11f-12g-25h-29i-12k3l4m10n-36o9
401=a-15b-15c-15d-12e-12f-18g-23h-14i26j-10k-14l-12m-18n-18o-17
402=a-14b-19c-17d-20e25f-20g-24h-19i-22j-16k-13l-13m-20n-23o-19
403=a-19b-24c-20d-4e9f-25g-31h-18i19j-10k-20l-18n-23o-24
404=a-16b-7c-7d-16e-14f-18g-20h-12i-13j14k-6l-21m-15n-19o8
408=a-4b-6c-6d-6e-8f-12g11i-5j-6k-3l-4m-8o-10
410=a-13b-13c-13d-14e-13f-14g-16h-13i-15j15k-12l-12m-15n-15o-13
413=b20c-3d-8e-23f-27g-31h-22i-28j-23k-17l-17m-25n-24o-27
422=a7d-17e-8f-12g-18h-9i-17j-11k-10l-14n-11o7 424=a4b-9c-7d-8e-4f-11g11h-5i-5j-10k-4l-7m-4n-6o-12
429=a-19b-24c-23d21e9f-6g-32h-20i-29j-23k-16l-16m-27n-26o-26
500=c-6d-21e-19f4g18h-16i-22j-20k-12l-6m-12n-21o-25
502=a-8b-18c-15d-19e-18f7g15h-10i-8j-15k-14l-9m-13o-7
503=a-18b-23c-19d-10e-24f18h-19i-25k-14l-14m-24n-25o-19
504=a-7b-12c-9d-12e-9f-14g18h-18i-8j-6k-5l-6m-8n-9o-10
524=a-13b-13c-13d-14e-14f11g3h-17i-15j-15k-13l-12m-15n-15o-15
529=a-13b-14c-13d-14e-14f16g-16h-14i-15j-14k-13l-12m-16n-16o-12
None=b-9c-7e-5f-3g9h9i5j-5k-4l-7n5o-7 abc=a-3b-4c-15d-5e-5f-3h-12i-6j-15k-5l7m-5n-6o9
aborted=a-9b-6c-6d-13e-7f-10g15h-12i-13j-9k-4l-4m-11n-8o-8 about=c-4i-4j3l-6
above=b8c-5e-4g-5j-7k-7m-6o-4 accept=a7b-5c4d-5e-7f-5i8j-14k-7l-3m-12o-12
accepte=a-5c-3e-4i-7k-5l-4o6 accepts=a11c-3f-4j-6k-6l-5m-6o-8
access=a-8b-7c-9d-10f-10h-13i6j7k-9l-7m-10n-16o-11
account=a-16c-11d-5e10f-11g-19h-9i4j6k-11l-10m-12n-13o-7 acme=a-4c8e-5f-7i-6k-7m-6o-13
active=d-4e12h-3j-12m-4n-5o-4 actual=d-6e-7g-4k-5l-5m-6 add=a-5b-10c-6e7f-6g-6k-7m-12o-3
additio=c-7e-4g6i-9l-10m-8o-5 address=b-3d-4e-6h-5i4j-5m-4o-5 adjust=c-3e-4i-4j-3k-3l-5
admin=a-9c-4e5i5j-8k-6l-4m-5o-8 after=c-7f-14h-14i-5j-9k-8l11m-6n-8o-9
again=a-5f8g-4h-9j-11k-7l-4m-7n-9 agent=e-6f-5i3j-3o-6 ai=a-6b5c-6f-13h-10i-4j-4k-6l-7m-5n8o-7
aierror=a-14b-5c-6d-10e7f-6g7h-7i-4j-4k-5l-4m4o9 algo=a4b4c-5l5o-11
all=a-9b-11c-3d8e-7f6g-12h-5i-12j-10k-8l-10m-8n-5o3 allocat=b-9d4e-6f-4g5h-4o-4
allowed=b9e-14f-20g-17h-10i-3j-4k-5l-11m-16n-13 allows=j-5k-8o5 also=c-4g6j-7k-3l-6o-8
alterna=a-9b-9c-9e-4f-4g-4i-7j-4k-7l11m-6o-12 always=e6f6g13i8k-5l-6m8n8o5
amazon=a-17b-15c-7e-5k-4l-10m-14o7 an=a-5b-7c-7d-5e-8f-18i-3j-5k-8m-9n7o9
and=a7c-8d-8f-9g-11h-10i-11m-3o-6 answeri=a3 anthrop=c-4d-4f-11g6i4l-5m-4n-7o-8
any=a-10c-13d-3e-4f-5g-8i-6k-8l-3m-14n9o3 api=a-8b-6g4h-14i9j-11l-15m-12o-6 app=e-4o3
applica=a-4b-3c6f-7g6i-7k-4m-10n-4o-5 are=c5e-6f5g-15h-7i-7j-8m-7n-8o-7
argumen=a-6b-6c-4d-5e-11f-5g-6i-7j-8k5l-5m-22o10 arn=j4 array=a-13c-7d-4e-8f-5g-4i-4j-5k-4l6m-4n6
as=a-6b-3c-3g-9l-5o6 assista=a-4b-9c-8d-5e-4g-6h-4i-4j-4k7m-7n-4 associa=b3c-10
at=a-6b5d-4e-4f6i-17j-6k-5l3m-27n-12 attache=a-10b-8c13e-4f-4g-6i-11j-6k-5l-4m-14o-10
attempt=a-5b-9c-7e-5f-6g4h-4i-5j-6k-5l-5m6n-4o-3
audio=a-16b-18c22d-8e-12f-5g-7i-10j-11k-18l-6m-10n-3o-9
authent=a-6b-5c-7d-5e-9f-6g-10h-6i12j-8k-7l-5m-8n-7o-10
authori=a-6b-5c-4d-10e-12f-8g-16h-7i15j-6k-5l-4m-13n-14o-10 automat=c-3g-3k-3
availab=a3b-14c-14d-3f6h-9i-7k-15l-12m-17n-12o-8 aws=b-5d-4e-5i-4
back=b-3c-5d6e-5f-10g-5h-4i-7j-3k4l-5m-5o-3 backend=b-4c-4d-3e-4f-5g7h-4i-3l-4m-4o-10
bad=b-12c-7e-8g-7h-12i-4l-5m-19n-11o11 badrequ=b-21c11d-10f-9g-13i-10j-9k-7l-5m4n-3o-4
balance=a-7b-9c-9d-10e21f-19g7h-14i-21j-10k-5l-6m-18n-21o-9 base=a-5b-6c11g-5i-3k-5l-4m-13o-9
batch=b12c-13d-6e-6f-3g-4i-5j-4k-6l-5m-4o-19 be=a-7b-8c-6d-13e-7f-3g-6h-12i4k5m-4n-5o7
because=b-12d-5g-6i-9j-6l-5m9n-9o-9 bedrock=a7b-9c-4e-6f-7g-4i-3o-4
been=b-13c-13d3e-5f-10g-8h-10i5j3k-8l-8n-10o-9 before=a-7b-6e-5g-4h10i-7j-5k-5l-5m-4n-8o-13
beginni=a-12b-15c-11d-4f-5k-5l8m-4 being=b-8d-5e-3g-8h-6i-4j-4k-6l-4m7n-5o-5 below=a5b-3g-5o-4
beta=a-8c-4e6i-7j7k-3o-10 between=a-10b-6c-7e-3i-9j-4l-9o11 beyond=a8c-9g-4i-3j-8l-5m-7o-7
bias=a-12b-12c-11d-14e-8i-4j-6k-4l-4m-3o13 big=a6b6c-5d-10e-3f-3g-9h-10n-8o-14
billing=a-10b-4c-4d-10e13f-12h-5i-10j-5l-4m-4o-4 block=b-7c-6d-4e-4h9i-7k6m-7n-13o-10
blocked=a-8b-13c-11d-15e-14f-10g-10h-13i7j-9k-10l-8m12n-12o-13
blocks=a-4b-14c-6d-3e-3f4g-7i-5l8m-13n-5 body=a-17b13c-9d-12e-17f-15g-9h5i-6j-8k-7m-26n-8
both=h-3l-3m-4 budget=a-10b-12c-13d-16e13f-10g-11h-6i-11j-13k16l-10m-12n-9o-25
buffer=a-8b11d-6f-13g-7m-4o-4 busy=a-8b-6c-10d-6e-6f11g-12h-5i-5j-4k-5l-6m-7n-5o-7
but=a5d-10e-5f-8g-7h-3i-10l-15n-6 by=b-17e-7h-6i-7j-16k-8m9n-4o-5 byte=a-6b7d-3g-3o-5
bytes=a-17b9c6d-11e-9f-6g-7h-5i-7j-12k-7l-7m-14n-5o-18 cache=a-5b-12d-5e-4g-8i-5k-5l-4o9 calcula=c-3
call=a-4b-22c-12f-17h-10i-12j-3k-5l17m-9n-12o-8 calling=c4e-6f-13g-4h-3i-6j-12k-15l-12
calls=a-8c-12d7e-4f-9g-12h-9i-5j-5k-3l9m-4o-13 can=b-9c-6f-5i-8j-3k-6l-8n-3o7
candida=a-5b-5c-6d-5e-8f-10g-13h-8i-9j-5n13o-11 cannot=b-10c5d-5e-6f6h-4k-4l-13m-9n-8
cap=b-4c4d-9e4g-4i-3 capacit=a-7c-14d-17e-6f21g-15h-5i-10j-14k-4l-5m-4n-5o-7 categor=a11k-3o-11
cause=c-3g-6h6 cc=j4o-5 certifi=a-5b-4c-5d-6e-6f-6g8h-9j-6k-4l-3m-8n-10o-4 cf=a-3f7g-8
charact=a-29b15c-7d-10e-10f-8g-9h-5i-7j-7k-11l-7m-12n-6o6 chars=a-14b7c-10d-7h-4l-4n-10o6
chat=a-4c-17e-6f-8h5i-11k-8l-4m-12n-13o6 chatgpt=g-4h3i-6j7k-5l-5o-6
check=a-10b-6c-9e-4g3h-7j7k-6l-8n-4 choice=a-8b-8c-9j-10k3l-14o7
choices=b-7c-4d-7e-6f-7g-13h-12i-6j-4k-3l-7m-6n10o-4 chunk=e-4g-12h10i-6j-4k-4n-10o-9
claude=a-5b-7c-13d-9g-4i8j7k-11l-5m-7n-3o-5 clear=o3 client=f-8g6h-4i-10j-4k-5l-4m-9n-4o-9
closed=a-10b-11c-7d-11e-6f-17h8i-15k-6l-8m-11n-14o-14 cloudfl=d-6f-6g5o-3
code=b-6c-5e-20f-11g7h-9i6k-9l-8m-7n-13 codex=c-5d-4e-3i-6k-5l-5m-4o5 coding=e-6f-4i6k-3o-6
column=a-4b-6c-4d-3e-3f-3g8h-4i-4j-4k-4n-5o-5 com=a-4b-3c-4e-5g7i-10j-4k-3m-4n-8o-5
come=c-3d-8e4l3o-4 command=f-3g4 compact=a6c-3g-5n-4o-6 compati=c-8e-4i-5k-9l-10m-7o5
complet=a-8b-10c-18d-10e-7f-13g-4h5j-5k-8l-6n8o5 compres=a9o-12 concurr=d15e-17f-6i-3
config=a-5b-4c-7d-4e-6f-3g-6i-15k8l-7 configu=a11c-7d-5e-6i4j-4k-3m-5o-14
connect=a-8b-3c-14d-15e-10f-8g14i-15j-12k-7l-7m-10n-8o-8 conside=b-3c-4e-4k-6m5o-7
console=a-5b-3d-5f5g-3h-5i-8m-3n-3o-8 constra=a-4 contact=c-3f-5i-7k-5m-3o-4
contain=b-14c5d-7e-9f-7g-10h-17i-10k-4m7n12o-8 content=a-7b-8c-5d-9e-12f-14g-6i-22j-17k8l-11m18
context=a23b-37c-25d-22e-5f-22h-19i-23j-19k-19l-16m-22n-20o-3 continu=d-5e10g-4i-11o-4
control=a4b4c-4d-4g-5i-4k-4l-4m-3n-3 convers=a14c-3d-5e-12f-11g-10h-7i-16j-13k-8l4m-18n-4o-12
copilot=a-4d6e-6o-4 correct=k4o-5 corresp=a-3b-4e-4i-6j3l4o-11
corrupt=a-8b-7c8d-5e-6f-5g-4i-7j-7k4l-7m-11n-3o-9 cost=a-8b-8c-5d-4e9o-5
could=a3b-14c4d-5e-7f-10g4h-5j3k4l-11m-6n-5o-7 count=a8b-12d5e-6f-6g-6h-6i-5j-7k-7l-5m-15n-3o-4
country=e-3i5j-5 crashed=a-8b-4c-6d-5f-9g10h-4i-5j-9k-5l-9m-9n-6o-6
create=a-13b-6c3d-6f-4g-13h16i-6k-4l-4m-17n-19o3
credent=a-9b-8c-9d4e-7f-10g-15h-7i20j-15k-7l-7m-7n-9o-6
credit=a-7b-7c-6e10f-4g-4i-10j-7k-5l-3m-6n-5o-10
credits=a-8b-9c-11d-12e20f-8g-10h-5i-16j-15k-9l-9m-3n-8o-15 ctx=a10c-6e-5i-5j-5k-10l-5m-6
cuda=a-3f-4g8 current=a-10c-18e7g3h-5i-6k-13l-11m-8n-7o-4 custom=a-6b-7e-3g-4j5k-6
daily=a-14b-5c-7e9f-8g-3i-5m-3n-4o-8 data=a-7b-7c12d-12e-8f-5g-12h4i-8l-5n-5o-9 day=a-10d9e-8
deadlin=a-14b-9c-6d-12e-11f-11g15h-7i-5j-5k-4l-5m-7n-4o-8
decode=b-8c3d-10e-6f9g-13h-5i-9j-7k-4m-13n-5 deepsee=c-10g-4i-4k-9l-8o7
default=a-4b-5c-8d-11e-6f-17g-9h-5j8k-5l-5m-5n-5 defined=a-7b-4c-3g-4i-3k-6l3m4
degrade=a-8c-3f8g-4i-4j-6l-6m-3o-9 demand=a-7b-5c-4i-8m-4
denied=a-4b-4c-5f-7g-14h-11i9k-4l-3m-15n-14o-11 deplete=a-8b-3c-5d-12f11g-13h-7i-14j-5k-6m-5n-8o-8
deploym=b-12c-10d5e-5f-9g-4h-8i-13j11k-6l-9m-8n-9o-16 depreca=a-9c-4e-6i-9j8k-3m-7
desc=a-6c-5e-3f-6g-6h-5i-10j7k-4l-5n-4 details=a-4b-3c4e3f-4i-4j-4l-6m-5
detecte=a-14c-8d-9e-12f-6g-5h-4i-15j-8k-7l-7m19n-5o-15 develop=c-7d-3e-5f-4i-10j-9k-9l-12m-8o13
did=a-4c-5d-3e-4g-5i-4j-9k-6m-6n8 dimensi=a-4b-12c6d-4e-6f-5g-5j-5k-5l-7m-3n-3o6
disable=a-9b-4c7d-6e-9f-5g-13i10j-9l-5m-10o-10 disconn=a-8b-11c-5e-4f-12g7i-6k-3l-4m-5n-7o-13
do=b-3c-4j6k-4m-5o-11 documen=a-11c9d-9e-8f-6g-6h-3i-17j-13k-9l-11m-12
does=a-4b-10d-5f-7h-5i-10k4m-10n-10 doesnt=a-9c-11e-4j-9k-10l-12o12 dont=c-4d-3e-5i6j3k-5m-5o-6
down=a-13b-14c-9d14e-16f-20g4h-12i-17j-6k-12l-12m-18n-16o-16
downloa=a-10b-5c11e-4f-8g-12h-11i-4j-6k-5l-6m-8o-6 due=a-5b-6c-5e5g-3h-4i-8j-5k-5l-4m5n-4o-5
duratio=a-11b-13c13d-7e-6f-6g-3j-3l-3m-4o-13 during=b-6d-11e-4f12g-8h-5i-9j-4k-4m-11n-4o-11
each=b-8e6f-3h-4i-12j-5m-6o-8 earlier=a4e-4i4k-3 econnre=a-5b-4c-10d-7e-8f-11g11h-13i-8j-4m-11n-9o-4
effort=a-5b-4c-14e-5f-4g-4i-6j-15k19l-9m-11n-3o-19 either=a-6b-4c-4g-4i-6k-7l-9m-3n5o7
element=a-15b-13c-12d-6f-3h-3j-9k-7l-8m-13n-6o14 embeddi=a-6b-7c-12l-4o11
empty=a-14b-11d-13f-14g-21h-19i-17j-24k-18m-23n19o9 enable=b-3c-6j-5k4 enabled=a-5g3i-11k10l-7o-10
encoded=a7c7g-4j-3k-4l-4m-3o-10 encount=b-3d-4f-9g6
encrypt=a-13b-13c10d-4e-8f-8g-6h-4i-7j-9k11l-8m-17n-3o-20
end=a-9b-16c-15d-13f-10g8h-11i-15j4k-12l11m-13n-6
ended=a-5b-6c-4d-12e4f-12g-7h11i-13j-6k-6l-4m-6n-4o-17 endpoin=a-9b-15e-4g-8h-9j8k-7l-11m-13n-9o-11
engine=b-14c-14d4e-10f5h-5i-9j-12k-8m-11n-4 enough=b-8c-12d-5e13f-3g-12h-3i-18j-15k-11l-13m-17n-6
ensembl=a-6b6c-3i-3l-4o-7 ensure=b4c-6e-4i-4l7o-13
entity=a-9b9c-12d-15e-5f-7g-6h-3i-12j10k-7l-5n-3o-21 eof=a-3b-5c-5d3e-6f-12g8h-6i-6j-5l-5m-4n-5o-6
equal=a-6e-3i-6j-4k-3m-5n-4o7 err=a-3b-4c-4d-4e-5i-8j-7k-3l-4n-5o-7 error=g5m-6n-17
errors=b5c-4d-10e-8f7g-5h-7i-11j-7m-5n-8o-6 estimat=a7c-4e-3o-6
event=a-4b-3c-4d-3e-3f-5g-10h12i-5n-8o-6 example=a-9b-5c-11d-10e-12f-9g10h-12i-16j-8k-10l-4m-10n-9o5
exceed=a-4b-10e4f8g-20h-12i-10j-9l-15m-17n-11 exceede=b5d7g-11h-8i-28j-22k-6l-15m-20n-25o-11
exceedi=a-3b-4c3g-4i-8o-3 exceeds=b9c3d-18e-15f-8g-21h-13i-11j-13k-5l-10m-22n-10o6
excepti=c-5d7f-6g4h-12i-4j-9k-3m-7n-7o-7 executi=a-5b6c-4d-4h6k-4n-4o-6
exhaust=a-10c-12d8e9f-4g-19h-12i-23j-17k-10l-7m-12n-15o-10
exist=c-14e-5f-5g-13i-6j13k-5l-6m-3n-8o-12 existin=h-3 exit=a-8c-6g8i-3j-9k-5l-9m-8o-5
expecte=a-7c-7e-8f-9g4h-6i-5j-4m-10n-7o4 experie=b-3d-9e-6f8g-7
expired=a-10b-11c-10d-13e6f-14g-10h-14i9j-11k-9l-6m-16n-15o-11 extra=a-15b-7c-13e11i-8j-6l-8m-12o3
failed=e-16g8h-17i3j-6k-5l-15n-9 failure=a-4b-5c-5d-5e3f-10g8h-6i-3j-6k-8l-5m-4n-7o-5
false=b-3c-4i-5j-4k3l-5 fetch=a-13b-6c6d-7e-4f-12g15h-7i-12j-6k-6l-8m-15n-3o-13 fetchin=g-3
fewer=o-3 field=a-13b-14c-13d-6e-14f-8g-16h-6i-14j-11n-9o13 fields=b-11c-7d-11e-4f-5g-7i-4j-3o8
file=a-13b-17c23d-12e-8f-8h-5i-9j-8k-12l-14m-11n-10o-3 files=a-8b-8c11e-3i-3k-4o-7
filter=a-8b-9c-10d-3e-4f-3g-8h-8i-4k-6l-6m12n-11
filtere=a-5b-5c-7d-4e-7f-4g-5h-5i-4j-6k-11l-11m10n3o-13 filteri=b5c-4g-6i-3j-7k-4m6n-3o-9
final=b-3c-4h4l-8m-6n-9o5 find=a-3c-4d-3e-4g-6j5k-4n-3o-6
finish=a-3b-9c-5d-8e-4f-7h6i-12j-4k-5l-3m-12o-9 first=a-4b-4c-5d-7e-7f-5g-10h7l6m-6n-4o-13
fit=a9e-3f-10g-3o-7 flagged=a-12b-9c-9d-5e-10g-5i-7j-7k-3m12o-11 flash=a-5b-4e-3i-5j6k-6o-8
follow=b-3c-4k-5l8o-8 followe=l5o-6 followi=c-4d-8f-8g-4j-4k5l6m-5n-4o-10
foo=a-18b-12c-14d-3e-8f-11g-13i-7j17k-12l-8m-10n-4 for=b-8c-7f-5g-7h4l3n-17o-4
forbidd=a-6b-6c-11d-7e-6f-6g-7h-5i10j-6k-11l-8m-15n-6o7 format=a-8b-10c4d-5e-5f-5g-9h-4i-10j-7k-5l4
formats=c5o-5 found=a-4b-8c-6d-13e-15f-4g-22h-15j11l9m-14n-4o-6
free=a-5b-5c-4e9g-9h-4i-4j-10k-3l-5m-3o-9 frequen=b-3c-4d8e-7f-8g-9h-4i-5j-3k-6n-4o-10
from=a-14c5f5g-5h-3i4j-7l7m-18o-5 full=a11b-4c-4d-11e-12f4g-9h-5i-5j-5k-4l-3m-5n-6o-11
functio=b-11c-25d-9e-8f6h-7i-14j-6k-5l6m-14n-7o6
gateway=a-8c-8d-10e-4f-9g12h-11i6j-10k-5l-5m-15n-12o-13 gemini=a-5b-6e-5h-3i-3j6l-5o-12
generat=b-9c-7e-4g-9h-12k-13l-6m-10n11o6 get=a-4c-3j-3k-4l-4 gif=c3
given=a8b-5c-4e-5f-3g-4h-3i-6j-4k-6n-3o-4 glm=d3e-4 go=d-5e4f-6g9h-11i-6j-3n-8o-10 good=e10i-11j-5
google=c-3e-4i-4k-4o-7 got=a8c-5d-8f-9h-5i-13j-8k-8l-8m-9n-8o-6 gpt=a-5c-6d7e-10f-8g-6h-4l-6m-3n-3
grammar=a-6b-6c-4f-5i-3l-3m-4o6 greater=a-5b-12c-9f-4g-4o8 grok=c-5j-6k5o-5 group=j8k-7o-8
guardra=a-12b-10c-11d-8e-8f-9g-7h-3i-9k-10l-9m12n-3o-13 had=a4f-3g8h-4j-9n-4o-16
handle=a11d-4e-4g-4i-3j-3k-4m-5o-16 hang=a-6b-4c-4d-5e-8f-10g10h-8i-5j-3m-5n-7o-6
hard=a-13c-4d-10e10j-3 has=a4e4f-13h-11i5k-11m-13n-11o-15
have=a-3b-6c-4d5e5f-5g-10i4j6k-13l-7m-3n-6o-4 header=a-15b-16c-13d-15e-8f-8g6h-5i5j-8k-8l-4m-6n-4o9
headers=c-6f-8g-9h10i-6 heavy=a-4b-4c-5d-4e4f7g-9i-7j-6o-4 height=c5o-4
here=a-4b-5c-4d-8f-4g-8h-5i-10j9k-3m-3n-4o-12 high=a-13b-7c-10e-12f7g-12h-5i-7j-7k5l-6m-5n-6o4
higher=a-5 history=a9c-4l-6 hit=a-4b-5c-6e6f-6g-5h-4i-4m-3n-5o-6 host=a-4d-3f9g-6h-4m-3n-3
however=a14o-18 http=b-4c-12d5f-15g10h-13i-10j-3l-11m-11n-11 id=a-6b5c-16d-6e-6k-6m-10n-8
identif=a-7b-5c-6f-8i-7j9k-5l-5m-11o-10 idle=c-3d-5e-4f-6g-16h13i-4n-6o-4 ids=b-6c-6i-4k-6l12m-9o-11
if=a-4c-7d-3g-10l-7o6 illegal=a-5b-4c5d-3o-4
image=a-23b-33c35d-11e-13f-10g-9h-11i-18j-19k-17l-15n-10o-22
images=a-19b-30c29d-16e-17f-10g-7h-4j-18k-18l-11m-4n-4o-13 immedia=i-7o-3 in=b-17d-5l-6o-4
include=a-4c-4d-4e6f-4g-10i6j-15l-12m-8o-5 incompl=a-7b-5c-3d-8e-5f-9g10h-5i-12j-5k-8l-3m5n-5o-15
incorre=a-12b-15c-11d-5e-7f-5g-6k-12l12m-14o-7 increas=b-7d5f-4g-4o-14 index=a-4b-9k6l-5
indices=a3o-4 inferen=a-4c-8f-13g7h-6i-7k-6l-7m-7n-5o-13
informa=a-11b-7c-7e-5f-5g6i-10j-15l8m3n-4o-7 initial=a-4b-6c-4g-5i-4m-5o6
input=a21d-7e-22f-16g-13h-16i-19j-24k-12l-11m7n-14o-10
inputs=a17b-6d-5e-11f-5g-9h-3i-9j-6l-7m-13n-3o-4 instead=a-14c-5d-4i-12k-5l-7o11 instruc=j-10k-6o5
insuffi=a-14b-14c-10d-15e16f-8g-24h-14i5j-8k-8m-18n-22o-13 integer=a-12b-11c-6i-5l-7m-3o14
interna=c-13d-13e-12f-3g7h-19j-12k-4m-18n-17 interru=a-6b-6c-7d-9e-5f-13g8h4i-11j-6k-4m-14n-15o-17
into=e-5f-4i4k-3o-3 invalid=b-6d-22f-12g-12i6j5k4l4n-27o5 invokem=a5d-4e-4g-5l-3o-12
ip=a-4b-8c-5d7e-11f-5j-4m-3o-3 is=b3d-7f13g-3h-20l-11m-8n-11 isnt=a-11c9e-3f-3i-6k-10l-5m-8o-12
issue=i-7j-4m-4 issued=c-5 it=a-5c-11d-12e-5h-4j3k-11m5n-6o-5 item=a-5b-10i-5j-5k7l5o-10
items=a-17b9c-9d-3e-5f-4i-6j-7m-4o-4 its=a3b-9c-12d-4e6f-3i-11l-4m-7o-11 jinja=a-5b-5g-3 jpeg=c3o-3
json=a-17b-8c-15d-8e-9f-8g14h-10i-17k-12l-16m-16n-12o14 kb=a-6b6c-5o-4
keep=a-8b-13c-11d-9e4f-13g11i-8j-12k-7l-8m-13 key=a-20b-19c-16d-7f-9g-14h-10i22j-8k-14l-11m-17n-14
kimi=a-3e-5f-5g6h-7i-5j5l-5n-7o-4 languag=a-4b-5c-13e-3f-12g-12i-14j-5k-13l-11n-9o11
large=b7d-5e-11f-15g-19h-6i-12j-6k-10l-9m-13n-8 larger=a-4b10c-5d-8e-4f-4g-5h-5i-4j-6k-7l-3m-8
last=b-6c-5e-4i-7k-9l13o-17 later=a-6b-11c-7d12e-6g-3h-4i-9j-5l-4m-4n-4o-5 learn=c-3i-4l-5
least=b-12c-8d-3e-4f-3g-4i-5l-10n-4 len=a17b-9c-5k-6o-15
length=a17b5c-12d-10e-17f-19g-5h-9i-12j-14k-18l-18m-22n-8o-9
less=b-4c-4d-4e-10g-4h-4i-10j-5l-6m-5n-7 level=b-3c-4i-3j-7k5l-5 library=c-4j-3k-3o6
life=a-7d-3e-6g-3j6l-3m-3o-3 like=c-4d-5f-4g-7i7m-5n-4o-4
limit=a7d7e8f-21g-31h-28i-29j-24k-8l-18m-35n-35o-3 limited=a-6b-6c-9d9e-8f-10g-5i-5j-4k-4o7
limits=a-11b-8c-12e7f-12g3i-5j-4k-3l-3 line=a-5b-7c-3d-5e-8f-5g7h-4i-13j6k-4m-5n-5
list=a-15c-7d-6e-4g-4i-6k-12l-5m-15n-5o9 lite=e-4 litellm=b-3c-4d-8e7f-7g4h-11i-4o-4 live=a-5i-3j3o4
llama=b-6h-4i-4k-4l-3m-4n-5o-12 llm=b-14d-10f-11k-4l-11m-8
load=a-13d-6e-6f11h-11i-7j-7k-6l-5m-9n-7o-8 loaded=a-7b-6c-10d-5e-7f6h-10i-6j6k-8l-4m-8n-6o-12
loading=f11g-8j-15 local=a-6b-3d-4f-5g-5i-3m-4o8 locatio=c-7d7e-14i8k-5l-3o-14
login=a-5c-7d-8e-7f-7g-10h-9i10j-7k-9m-12n-10o-10 logit=a-12b-12c-11d-14e-8i-4j-6k-4l-4m-3o13
long=a7b4c-5d-11e4f-15g-11h-9i-9j-14k-11l-17m-16n-15o-5
longer=b-14c4d-5e-9f-12g-5i-13j5k-10l-6m-11n-7o-4 low=a-8b-5c-6e6f-4j-6k9l-4m-4o-10
lower=a-8b-9c-7d9e-12f-12g-11h-9i-9j-7k-5l-4m-7n-7o4 make=a-9c-4d-3e5f-3j-6k-3
malform=a-7c-13d-12e-8f-15g9h-12i-12j-8k-8l-10m-16n-10o12
many=b8c4d7g-9h-14i-17j-9k-17l-8m-13n-17o-10 mapped=a11k-3o-11
match=a-6b-10d-6e-4f-4g5h-6j-6k-7m-4n-6 matchin=e-3l4m-3o-8
max=a-8b14c6d-11e-3f-14g-18h-17i-15j-16k-6l-15m-24n-22o9
maximum=b9c4d-13e-16f-11g-18h-22i-28j-20k-17l-16m-29n-23o5 maxleng=a-9b11c-4d-3g-8j-3l-4m-6o-5
may=a-9b4e-11f-10g-9l-7m8o-15 mb=a-15b5c13d-14e-11f-11g-7h-6i-7j-8k-5l-6m-11n-7o-18
me=a-11b-6c-10d-8e-7f5g5i-7j-11k-6l-8m-11o-9 media=a-4c4o-3 medium=a-3b-4c-4j-5k8l-3o-8 member=a-4
memory=a-5b-3c-3e-5f-5g7h-3i-4j-3o3 message=a-6b14c-13e-22f-12g-12i-23j-24k-5l8m-5 meta=f6g-4j-5o-3
method=a-9b-13c-13d-8f-6g-12h-3i-17j-14k-11l-10m-7n-9o13 mib=a-7b8c-11d-4e-3f-4o-10
mime=a-4c11k-7m-4o-9 mini=a-6b6j-3k-4 minimal=j-5k5o-5 minimax=a-4c-3e-10f8g-4i-6j4k-7m-3o-13
minimum=a-19b-6c4g-4k-3l-6m-3o16 minute=a-11b-7c-10d16e-19g-3i-4k-4l-5m-4o8
minutes=a-11b-10c10f-7i-5k-6l-4m-7o-10 missing=a-18b-8c-12d-11e-9f-10h-5i11j-11l4m-15n-17o7
mode=a-6b-5c-19d-5e-4f4h-5j4l-12n-8 model=a-3b-25c-4d-11e-7g-7h-16i-15j23k-4l-11n8
models=b-18e-10f-5g6h-4i-10j6k-12l-11m-5n-6o3 moderat=a-7d-3e-8i-6j-6m7o-3 module=a-5b5j-5l-4
moment=a-3b-6c-6d5e-3f-4g-6h-3i5 month=a-9d-10e10
monthly=a-9b-6c-5d-8e12f-5g-7h-5i-9j-4k-5l-3m-5n-6o-5 moonsho=e-5g-7h-5i-11j9l-4n-6
more=a8b5c-13e3f-7h-5i-14j-4l-10n-5o-9 most=a-4b10d-8e-8f-15g-10h-6i-9j-10k-16l-20m-13n-6o-4
mp=c5j-3k-4l-3o-7 ms=a-4b-8c5d4e-9f-4g-3h5i-4j-3n-4o-5 msg=b7c-9d-4g-6i-6l-8m-5o-5
multimo=a-15b-3c18e-6f-8i-6j-16k-11l-6m-14o-12 must=a-5b-4c-6d-12e-17f-9g-17h-12j-18l11m-25o5
name=a-10b-25c-12d-8e-4f-12g11h-8i-14j4k-7l-5m-10n-11o14 names=b-6j5k-5l-10o7 need=b-3
needs=i-7l4m-3o-4 net=d-4e-4g8h-10i-4j-6n-4o-6
network=a-10b-9c-9d-10e-11f-13g12h-7j-11k-7m-12n-12o-10 new=b-8c4d-9e-8f-12g-12h-9j-6l-11m8n-15
newer=a-9c6i-3j-13k-4m-11 nginx=b3d-4i-4o-4 no=a-16c-13d-15h4k-18m-19n12o-6
non=a-7b6c-6d-4e-4g-4i-3l-8m-8n-5 none=b-11c-9f-6g-3i-6j5l-10m-8
not=a-22b-5d-21f-9h-15i7j7l5m-9n-9o5 now=a-6b-4c-10g-5k-5l-4m-7o6
null=a-5b7c-18e-4g-3h-4k-12l-4m-6o7 num=a10c-6e-5j-4k-9l-5o-3
number=b6c4d4e-13f-5g-6h-4i-15j-7k-10l6m-9n-5o-8 nvidia=b-5c-3f8g-4i-4j-9k-5l-5m-3o-9
oauth=a-15b-3c-5d-8e-8f-5g-10h-13i15j-14k-7l-5m-7n-7o-11 object=b-17c-4d-4e-4f-4g-3i-3j-3k-10l-8o10
occurre=c-4e-7f-12g9i-6k-4l-8n-7o-7 of=b10d6e-11g-7h-16i-6j-6k-5l-11n-12 ollama=a-7b-5c5d-4i-4k-4o3
on=a-6d-4e7f-9g-13h-7i-3j-4k5l-7n-6o-14 one=b-3d-11e-4g-8h-5i-6j-6l-16m-10n-3o9
only=a4b-17c6d-8e-9g-10h-4i5j-20k-8l-16m-10n-5o6 open=a-5b-6c-3f4g-10m-4n-5o-7
openai=a-7c-8d-7e-3f-8g8k-6l-7m6o-4 openaie=g4o-8 openrou=d-7e-5f-6g4i-7j4k-5o-9
operati=c-12d5e-6f-19g8i-15j-4k-7l-7m-10n-13o-9 options=i-6j4 opus=e4f-4i3j-3o-7
or=a-7b-8d-8e3f-12g3j6l-5n4 order=a-6b-4c-5e-4f-4g-3i-9j-9k-4l9m-6o-11 org=a-7c-4d4e-3i6j-8m-5o-6
organiz=a-4c-7e-5g-3i10j-6k-5m-4o-4 origina=a-9b-3c-10i-4k-4l-10m-13o11 other=a-4e-4k-4o-4
our=a-9b4c-7d-3e-9g-7i-3k-6l-5m7n-4o-11 out=a-6b-14c-12d-20e5g3h4i-7k-13l-10m-21n-11o-8
output=a-20b-21c-17d-7e-13f-16g-14i-14j-17k4l11m6n11o4
over=c-6d6e7f5g-18h-15i-18j-8k-8l-10m-9n-11o-18 overdue=d-11e11f-8i-12
overflo=a10b-10c-8d9e-13f-14g-18h-11i-10j-9k-7l-8m-8n-8o-18
overloa=a-9b-11c-10d-22e-12f22g-23h-14i-16j-13k-10l-7m-10n-13o-11
page=a-10b-8e-12f-8g-8h5i-12j9k-6l-4o-13 pages=a-13b-18c18d-7e-7f-3g-5i-9j-10k-5l-8m-5n-3o-14
paid=d-8e7f-7 paralle=b-6d13e-14f-3i-7 param=e-8f-4g-13h-3i-16k-9l-6m-10n-3o3
paramet=b4d-7e-11f-6g-15h-4i-19j-23m-13n-6 params=a6b-8d-3f-4g-4h-6i-7j-11k-6l4m-12n-12o3
parse=a-9c-8d-12e-3f-6g-14i-7j-12k-5l-4m-9o9 part=a-5b8c-10o-4 pass=c-5e-7i8j-4m-4o-10
passed=c-4d3e-4f-6g4h-9i-4j4l-3o-7 passwor=b-4c6f-3j-4k-3m-4o-4
pattern=a-6b-7c-4d-4e-5f-5g-12h-4i-10j-4k-3l-10n-4o12
payload=a-6b20c-22d-3e-9f-11g-7h-4i-10k-10l-13m-17n-5o-4
payment=a-4b-3c-4d-6e10f-5g-5h-4i-12j-5k-4l-4m-5n-4o-6
pdf=a-16b-12c21d-10e-10f-9g-8h-4i-10j-11k-16l-7m-18n-5o-16 peer=a-4c-8d-6e-5f-5i-7j-4k-4m-4n-4o-6
per=b-10c10d12e-18f-12g-12h-9i-7j-11k-9l-10m-16n-10o-8 perform=e6j-6m-4o-5 period=a-5d6e3i-8
permiss=a-3b-4c-3d-3e-11f-4g-4i14j-14k-5l-4n-3o-5 permitt=a-19b-7c-13e-10g-3i-8j-7k-3l-8m8o4
persist=g-8h3i-4j-5k5l-5o-9 pixels=a-12b-12c12d-7e-10m-4o-10
plan=a-11b-13c-11d-11e17f-9g-15h-11i-21k-11l-4m-11n-17o-13
please=a-7b-5d3f4g-11h-7i11j-4k-10l-4m-14n-20 plus=a8c-3o-10 png=a-3c9k-5l-3o-12
policy=a-7b-8c-9d-9e-10f-7h-5i-7k-10l-7m11n-7o-9 portkey=a-4b-4c-5d-6e6f-5g-7i-9j-5k-7m-5o7
positio=a4b-8d-4e-3f-4i-4l-8 positiv=a-13l-5o11 post=a-11b7c-12d4e-7f-6g-9i-9j7k-3l-5o-3
pre=a3b-7g-4o-5 precedi=l6o-6 predict=b-8d-8f-6i-4j-3k-4m-8 prefix=a7b-9c-5d-3g-4l4o-9
prematu=a-3b-4d-4f-5g8h-8i-4k-4l-4n-3o-5 previou=b-4c-3d-6e-9i-12j-4l12m-3
pro=a-9c-6f-11g-4i6j5k-8m-6n-4o-10 process=a4b-11c7e-9i-10j-15k-6l-8m4n-5o-12
produce=c-5d-4e-3f-6g-7h-5i-5j-7k-5l-4n9o-8 profile=d-4e-5g-4h-3i5l-3n-3 project=d-4i-10j4
prompt=a20b-18c-13d-7e-13f-11g-17h-7i-21j-24k-13l-11m7n-11o-5
propert=a-12b-11c-12d-4e-5g-5i-5l-4m-5o12 protect=b-4c6f-3j-4k-3m-4o-4
protoco=b-9c-10d-9f-10g9h-3i-5j-4k-4m-8 provide=a-7b6e-14g-3h-8i8j-7k-10m-4
proxy=b-4c-6d-5e-11f-7g3i6j-5k-6l-3m-7n-6o-9 purchas=a-6b-10c-9e11g-6i-11j-11k-8l-9m-10o-10
px=a-4c5d-6 query=a3o-5 queue=a-11b-8c-11d-14e-15f14g-9h-8i-4j-5k-7m-4n-6o-9 quickly=a-4d4o-3
quota=a-20b-11c-10d-4e19f-13g-10h-9i-16j-7k-9l-6m-9n-9o-15 quotas=d4e-3
qwen=b-12c-7e-5i-7j6k-4l-3m-3 raise=o-3 ran=d-10e7f-5g3 range=c-7d-11e-8f-8g-10h-5i-5j-8k-9l-6m-8o7
rate=a-15b-16c-16d20e-11f-10g-20h-15i-9j-5k-5l-6m-12n-7o-12 ratelim=a-4b-6c-3f-5g-4n-3o-4
reached=b-12c-16e13g-18h-9i-22k-7l-7m-12n-10o-17 read=a-15b-10c10d-11e-6h7i-16j-13k-6l-7m-6n-14o-9
ready=a-5b-6c-5e-6f13g-15i-5j-11k-5l-5m-4o-8 reason=a-12c-8d-11e-8f-11g6h5i-14j-7l-7o-17
reasoni=a-13b-11c-20d-6e-9f-5g-10h-4i-15j-9k27l-13m-15o-26
receive=c-14e4f-4h8i-11j-10k-14l-14m-18o-5 redacte=k6l-6n-3o-9 reduce=e-8f-3o-8 reduced=a4c-3g-3o-4
refer=e-4f-3i-5l-3 reforma=a-6c-6d-5e-4g-4i-6l-7m-5o6 refresh=a-12d-5e-8f-4g-11h-8i10j-7m-4n-8
refused=a-11b-5c-5d-8e-10f-12g7h-14i-13j-13k-9l-3m9n-19o-10 region=c-5e-15f-8g-10j8k-4o-5
registr=c-5j-4k-5o7 rejecte=a-5b-5c6f-16g-9h-4i8j-9k-9l-13n-7o-17 remaini=a-10d-3e8i-10j-7o7
remote=g7h-9 remove=a-6b-10k-3l5 renew=c-4e-3i5o-6 report=c4m-7 req=d4e-5l-3
request=b7c-7d10h-22i-5j-6k-5m4n-24 require=a-16b-19c-4d-13e8f-13g-19h-14i7j-5l-9m-8n-16o8
reset=a8b-7c-9d-12f-7g7h-11i-5j-5k-6m-5n-7o-8 resets=a-7b-3c-3d-5e8f-3o-4
resolut=a-4b-4d-4f-8g7h-3i-7j-8k-10n-3 resolve=a-3b-3c-4e-4g4h-4i-5j4k-4l-3m-3n-3o-6
resourc=a-8c-5d11e-9g-4h-8j4k-6l-8m-8n-10o-13 respond=a-7b-6c-10d-8e-5f-13g-6i-14j-15k-8m12n-17o-10
respons=a-7b-8c-23e-4f-9h12i-23j-19k-8l11m-5n-3o6 restric=a-3d-4e-7f-4g-3i7m-4o-5
result=b-4d-3e-4g-9i-5j-3l11o-14 results=a-8g-4i-3j-4l6
retry=a-9b-6d8e-5f5h-3i-13j-6k-8l-10m-5n-8o-12 retryin=g-3 returne=a-8b7c-10g-8h-12j-3l-9m-6n12o-4
review=d6e-7f-3j-4m-3 right=b-4g-4 role=a-17b-19c-17d-8e-17f-7g-13h-5j-11k-7l12m-18n-7o8
roles=a-11b-9c-9d-3e-4f-4g-5i-8j-5k-7l12m-7o-12
route=b-13c-6d-13e-8f-7g-12h-8i-13j14k-4l-6m-4n-11o-15 row=a-5b-9c-8i-10j-3k-8l10o-13
rpc=a-6c-5e-3f-6g-6h-5i-10j7k-4l-5n-4 rpm=a-4b-5c-3d11e-15f-8g-3h-3j-3n-5o-4 rs=c-3i-4j-5k7l-4o-9
run=a6b-3c-6d-9e4g-11j-5 runner=a-7c-4f-8g8j-5k-3m-4n-5o-3 running=c-6e4f-5i-9j4k-6m-4o-10
runtime=a7b-8c-6g-4 safe=a5b-3c-9k-3m9o-9 safety=a-10c-9d-6e-6f-6g-10h-7i-6j-5k-5l-5m11n-5o-7
sales=i-6j4 same=b-6d-5g-4l8m-4n-4o-9 satisfy=a-4 schema=a-14b-11c-13d-7e-7f-6g-5i-5j-9k-8l-7m-12o16
search=a-10b-6c-11j-4k-8m-9o11 seconds=a-7b-13c6d11e-19f-13h8i-10j-14k-6l-6m-7n-16o-10
see=a-9b-6c3e-5f-4g4i-4l-7m-8o6 selecte=a-7b-6c-11e-8g-5h-3i-9j-12k-7l-8m-12n-12o12 send=a-8b9d-5g-3
sending=a-3b-4e-6f-5g7h-6i-5l-4n-4o-3 sensiti=a-11b-5c-4d-5e-6f-5g-7h-9i-6j-3k-6l-4m14n-17o-7
sent=a12b-14d8e-8f-5g4h-8i-8j-7l-5m-6o-18 seq=a15b-8c-4k-6o-14
sequenc=a4b-21c-7d-5e-6f-4g-8h-3i-6j-6k-5l-3m-5o8 server=a-5b-7e-18g11h-12i-6j-4k-11l-5m-6n-17o-10
service=a-13b-11c-18d-8f12i-12j-8k-7l-7n-10o-12 serving=l4o-6
session=a8b-14c-11e-4f-8g-10h-5i-10j-4k-5l-5m-7n-4 set=a-3c-10d-4e-4g-3j-9k4l-7m-5o6 setting=e4o-5
shorten=a9c-10d-7e-9i-5j-6l-4m-13 shorter=b5k-4o-11 shortly=c-3e-5g4h-3i-4j-3l-3m-3
should=c-9d-7e-7f-7g-14h-6i-11j-6k-3l-13m-20n-7o7 side=b-3
signatu=a-11b-11c-15d-12e-14f-10g-8h-9i4j-12k17l-9m-15n-7o-13
signed=a-6b3c-6d-7e-7f-6g8h-9i-10j-5k-4m-8n-10o-8
size=b15d-20e-17f-11g-29h-9i-15j-14k-17l-14m-14n-9o-8 small=a-11b-6d-8e-9f-15g-7h-3j-4m-4o10
smaller=b6d-9k-3o-4 socket=a-7b-5c-5d-6e-9f-11g6i-6j-4k-3m-5n-8o-7 some=a5c-7i-4j7k-4l-10o-9
somethi=a-8b3c-7d-8e-5f-6g6i-7j-3k-4l-3m-8n5o-6 sonnet=e-3j4 sorry=a-6c-6d4e-4i-8j-5k-4l-4o-11
source=a-5b-10c8d7e-6f3g-10h-7i-9j-6k-6m-13n-9o-8 specifi=a9d-5e-4g-4i3j-15k-11l-9m-6
spend=a-9b-5c-4d-8e13f-4i-10j-3k-11l-6o-7 spendin=d-8e6f-3i-5j-3
stack=a-15b-13c-13d-9e-5f-7g-4h-5o12 stalled=a-8b-3d-11e-7f-7g-9h11i-7n-14o-7 standin=e10i-11j-5
start=a5b-16d-12e-5g-13h14i-10j-12l4m-18n-22o-16 status=a6b-7d6e-9g-4h-10i-6k-3l-10m-11n-7
still=a9o-12 stop=a-20b-19c-16d-8e-6f-4i-8j-4k-6l-6m-4o19 stopped=e-3i-4o-4
store=a-4b-7c-5i-9j-12l-6o11 stream=a-9b-11c-20d-3e-15g-7h13i-23j-17l-11m-18n3o8
streami=a-8b-4c-12d-5e-12g-13h8i-7j-19l-4m-3n-5o11 streamr=b9c-8o-17
string=a-21b6d-4e-5f-4g-11h-4i-8j-4k-3l-13m-11n-3o9 structu=a-14c-7d-3e-4o13
submit=a-4e-5g-3i-8j-4k3l-4o-6 submitt=a4c-5d-6e-4g-5l-5o-5
subscri=a-12b-4c-5e17f-5g-10h-4i-12j-15k-6l-5m-9n-6o-9 such=a-4b-4c-4d-3e-5f-6g-6h-5j9l-3m-4n-10o-11
sum=a15k-4o-17 supplie=a-9b-4c-3k5m-3o6 support=a-6b-21c13d-11e-12f-18g-23h-6i3j-4k5m-26n-11
sure=a-9c-4d-3e5f-3j-6k-3 suspend=d-3e4i-6 switch=a3o-4
system=a-10b-17c-17d-5e-8g-6h-4i-14j-13k-13l4m5n-5o4 take=a7b-7c-5d-12f8g-4i-8j-10k-4l-6m-8n-4o-11
task=d-3g6h-11i-4n-7 team=e3i-8 tempera=a-13b-16c-14e-9f-5g-4i-11j-8l-9m-10o17
tempora=a-9b-8c-8d-9e-13f16g-12h-16k-8l-6m-11n-17o-12 tensor=a-3g5
termina=a-7b-4c-8d-7e-5f-6h5j-10k-4l-3m-4n-6o-6 terms=a-11b-5c-7e-10f-8g-5j-11k-4l-5m9o-9
territo=e-3i5j-5 test=f-3g-5i-7j6k-4o-7 text=a9b6c-5d-16e-12f-9g-21h5i-10j-16k-8l-19m-9n3
than=b7d-18e-6f-4g-11h-8i-11j-17l-10m-17n-10o-4 that=b6d-6e-7f-5g-7h-4i-13k-10l7n-4o-9
the=a-3d-5e-6l8m6 there=a-10e-6f-5g-4i-5j6k-6m-5o-6
thinkin=a-12b-12c-22d-12e-14f-4g-7h-9i-7j-19k32l-16m-17n-8o-29 this=a5b-9d-4f-5g-9h-11j-5k6l-6m-4n-3
thought=a-10b-8c-12d-3e-7f-7g-4i-12j-10k14l-6m-10o-10
throttl=a-13b-11c-9d16e-12g-17h-5i-15j-14k-6l-9m-11n-5o-13 through=a-7b6c-3g-9h4o-4
tier=a-5c-14e7f5g-8k-12l-10m-4o-16 time=b-11c-11d7e-5f-20h5i-9j-6k-4l-5m-4n-4o-10
timed=a-9b-7d-8e-12f-19g8h7i-16j-9k-5l-5m-8n-8o-6
timeout=a-16b-17d-21e-15f-7g6h16i-20j-12k-10l-10m-25n-23o-17 to=a-6b4e-4h-19i3l-5m4o-3 today=d8e-10
token=a10b-32c-28d-8e-7f-18g-6h-5i15k-6l-18m-19n-4
tokens=a21b-47c-39d-14e-7f-30g-23h-4i-6j-21l-23m-27n-7
too=b7d10e-9f-8g-21h-18i-23j-14k-11l-15m-22n-17 tool=a-8c-6d-14e-13f-9g-11h-11i-17j-16k-8l18m-26o5
toolcon=a-10k-6m-4 toolres=b-4c-3k-7l7m-4o-8 tools=a-15b12c-22d-13e-11f-8g-5i-12j-15k-6l-16m-10o8
toolu=a-13k-3o5 tooluse=a-10b-6c-7k-8l7m-10 top=a-12b-7c-8d-3e3g-3i-12j-3k-12l-11m-7o13
total=b4d-16e3f-7g-10h-3i6j-5k-10l-9m-7n-10o-16 tpm=a-11b-14c-5d16e-14f-6g-7h-6i-6j-7k-5m-4n-4o-4
traffic=d-9e-5f8 trial=e7i-13m-5 trigger=d3e-4f-5 true=c-6j-3
truncat=b-10c-5d-7e-6g-11h5i-11j-8k-10l-12m-10n-6o7 try=a-3c-4d3e-4f7g-4h-9j-8k-8l-5m-8n-9
trying=a-8c-4f4g4h-8i-4k-4l-4o-7 turn=a3b-5c-14d-6e-7f-11g-16i-11j-6k-11l14m8n-4o-19
type=a-10b-21c14e-7f-7i-10j-10l-10m-13n-8o5 typeerr=a-3c-7d-7e-4f-5i-7k-3m-3n-4o-5 uminfer=i4j-6
unable=b-5c3d-5e-5f3g-5i-9m-10o-8 unautho=a-5b-5c-5d-7f-7g-7h-5i8j-7k-4l-4m-7n-7o-5
unavail=b-9c-16d-14e-14f12h-16j-7k-15l-15m3n-8o-13 und=f-4h4 under=a-6b-14c-4e-5f6g-11i-5m-4o5
unexpec=a-12b-6c-4d-5e-12g15h-16i-21j-12k-5l7m-12n-22 unhandl=f-3g9h-8i-3l-3m-3n-6o-12
unique=b-6k-5l6o-4 unknown=a-14b-16c-11d-13e-3f-19g12h-18i-18j6k4l-6m-26n-17
unrecog=a-9b-4c-3k6m-3o6 unsuppo=a-19b-15c6d-6e-9f-16g-12h-6k8l-18m-22n-7
up=a5b-7d-13e7f11h-10i-12j-11k-8l-6m-9n-10o-4 update=b-4j-4k-4l-3 upgrade=a-5c-3d-8e12i-11j-3
upload=a-10b5d-6e-3o-10 uploade=a-4c5o-3 upstrea=b-16c-12d-8g10h-9j-19k4l-12m-19n-14o4
uri=a-13b5c6d-14e-13f-9g-7h-4i-5j-4m-3n-6o-14 url=b-8c6d-13e-6f3h-13i7j-5k-7l-6n-4o-13 us=d-4
usage=a-10b-5c-12d-9e18f-4g-5i-12j-5k-7l-4n-3o-11 use=b-17c-5e-11f-8h-13i7j-6l4m-12n-9
used=a6b-5c-6d-7e6f-4g-10h-7i4k-7l-4m-4n-9o-12 user=b-23c-14f-10g-14h-8i13j-12k-15l9m-17n-16
using=b-3f-3g-4j-4k4m-6o-12 valid=d-21f-7g-16i3l-6n-12 validat=c-4d-13e-8f-5g-13h-3i4j-9k-9l-5m-8n-6
value=a-12c-7d-14e-10f-10h-10i-14j-10k7m-14n5o5 valueer=a9b-12d-6e-4f-8g-11h-7i-7k-4l-5n7o-12
values=a-4b-7d-3e-6f-4g-5h-7i-9j6k4l-7m-4n-9o-9 verifie=c-10i-3j-4k10l-5m-8o-9
verify=d-5e-12h-4i8j-7k-6m-4n-5o-8 version=a-12b-3c-13e-7g-3i-8j4k-4l-3m-5o10
video=a-15b-18c20d-4e-7f-7g-8h-4i-6j-6k-8l-6m-14o-16 violate=a-6b-3e-4f-5g-9h-4i-4j-5k-3m9n-7o-3
violati=a-8b-7c-7d-10e-6f-7g-6i-11k-4l-5m12n-3o-7 vision=a-5b7c14d-13e-6f-13g-15i-5j-15k-9l-8
visit=a-6c-4g-3i-6j6l-4o-7 vs=a-3b4c-5d-7e-3i-9j-11k-7l-4n-3o9 wait=a-9b-7c-6d5g-9i-6m-3o-5
waiting=a-6b-3c-3d-7e-6f8g-13h7i-12j-6l-3m-3o-4 warning=a10b-9c-5d-9e-8f-5g-6h-4i-4j-3o-14
was=b-9d-8e-8f6g9h-6i-5j-7k-5l-18n-12 we=b-9c-11d-4e-4g5h-3l-5n-6 webp=c6g-4k-3m-4o-4
websock=a-9b8c-5d-12f-4i-11j-4l-5m-3n-9o-7 weekly=d-5e5 went=a-4b-4c-6d-7e-5f-5g8i-7k-4m-3n-5o-4
were=b-9e8g-6i-5j-4k-6m-4o-17 when=b-5c-5e-3f-5h-3j5k6n-5o-13 which=a-10b5g-4i-5k-5l-5m-6
while=b-10c6d-8e-5h6i-8j-6k-6l-3m-9n-6o-9 whitesp=a-10b-10c-8d-4k-11l-9m-9n-4o11 width=a-4b-4c7o-5
will=d-8e5 window=a8b-9c-13d-7f-6g-14h-6i-7j-7k-5l-5m-8n-7 with=a-10b-3c-9e-5f-10j-15l15m-6n-3o4
within=a-5b-4d-6e-4f-4g-14h9i-6l-3n-11 without=a-10b-5c-8d-9e-5f-7h6i-6j-10l5m-12o-12
work=a-4c-3d-4e-13g-3i6k3n-3o-5 worker=a-7b-8c-5d-9e-5f-11g10h-3i-4j-4k-3l-4m-7n-5o-4
workers=a-10b-7c-6d-4f9i-7j-10k-4l-7m-8n-3o-7 workspa=a-4b-3c-3d-4f-4g-4h-3i6j-10m-10n-4
would=a4c-4e-6f-5g-7i7j-4k-4m-6n-4o-9 wrong=a-5b-5d-7e-5f-5g8i-7j-3m-4n-5o-4
xxx=a-6b7c-7d-3e3g-5i-5j4k-6l-4o-9 xxxx=a-5b-3f-7g-5h3i-4j4o-6 xxxxxxx=g4o-3
yet=a-10b-9c-9d-4e10f8g-13h-4i-12j-14k-7l-9m-10o-9 you=a-9b-8c-5d6e4f-14g-9h-6i6j-3k-3l-10n-16
your=b-6c-9e12f-13h-6i-5k-12l-7m3n-12o-6 youre=a-4d4f-4o-5 youve=a-3b-4d-5e8f-4g-4o-4
已达到=a-14b-11c-10d-17e13f-7l-3m-5o9 请求失败=a10b-14c-8d-10e-10f-12g-9h-10i-11j-7l-3m-7n-12o-14
输入内容过长=a13b-11c-11d-13e-11f-12g-9i-11j-13k-11l-10m-14o-13
错误=a9b-14c-14d-11e-12f-12g-9i-11j-13k-12l-11m-16
"""


# Word prefixes, so that "authorized" and "authorization" are one; the first words are the most specific. 6 letters, 40
# words or 120 made no difference.
_STEM_CHARS, _WORDS_MAX = 7, 80
_WORD = Pattern(r"[^\W\d_]{2,}")
# Shorter words match in codes by accident.
_IN_CODE_CHARS_MIN = 4
# Words needed for a result.
_WORDS_MIN = 2
# A false overflow costs a compaction, so it needs this lead: of the overflow results with it, nine in ten were right,
# of the others one in four. The error must also mention a size.
_LEAD_MIN = 10
_COSTLY = frozenset({FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW})
_SIZE_WORD = Pattern(r"token|context|window|length|size|limit|long|large|big|many|exceed|max|short|bytes|char|payload")

_NO_STATUS = str(None)
# The bias term: a pseudo-word that every error has.
BIAS = "always"
# The letter of each kind in the table.
LETTERS: Mapping[str, FaultKind] = dict(zip("abcdefghijklmno", FaultKind, strict=True))
_WEIGHT = Pattern(r"([a-o])(-?\d+)")


def stems(text: str) -> set[str]:
    """Return the prefixes of the first words of a text."""
    return {found[0][:_STEM_CHARS] for found, _ in zip(_WORD.finditer(text), range(_WORDS_MAX), strict=False)}


def features(evidence: Evidence, vocabulary: Collection[str]) -> set[str]:
    """Return the words of a vocabulary that an error has: in its sentences, in its codes, and as its status."""
    in_codes = {
        word
        for code in evidence.codes
        for word in vocabulary
        if len(word) >= _IN_CODE_CHARS_MIN and word.isalpha() and word in code
    }
    return {word for word in {*stems(evidence.text), str(evidence.status)} if word in vocabulary} | in_codes


def most_likely_kind(evidence: Evidence) -> FaultKind | None:
    """Return the kind with the most votes, or None if too few words are known or the lead is too small for the kind."""
    weights = _weights()
    found = features(evidence, weights.keys() - {BIAS})
    if sum(word.isalpha() and word != _NO_STATUS for word in found) < _WORDS_MIN:
        return None
    votes = dict.fromkeys(FaultKind, 0)
    for word in {BIAS, *found}:
        for kind, weight in weights[word].items():
            votes[kind] += weight
    first, second = sorted(votes, key=votes.__getitem__, reverse=True)[:2]
    is_sure = votes[first] - votes[second] >= _LEAD_MIN and _SIZE_WORD.search(
        " ".join((evidence.text, *evidence.codes))
    )
    return first if is_sure or first not in _COSTLY else None


@cache
def _weights() -> Mapping[str, Mapping[FaultKind, int]]:
    """Return the weights of each word, parsed from the table at first use."""
    words = (entry.partition("=") for entry in WEIGHTS.split())
    return {
        word: {LETTERS[found[1]]: int(found[2]) for found in _WEIGHT.finditer(weights)} for word, _, weights in words
    }
