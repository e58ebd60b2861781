"""How much each word speaks for or against each kind of failure: see `likeness`, which reads it.

Written by `python -m tests.core.fitting` from the refusals that tests keep; not for editing by hand. A word, then the
letters of kinds, each with its weight in tenths of a natural logarithm.
"""

WEIGHTS = """
200=a-9b-15c-16d-14e-14f-14g-9h10i-14j-21k-18l-22m8n21o-13 400=a8c9d-9e-10f-12g-25h-27i-12k4l4m11n-35o8
401=a-17b-15c-13d-10e-13f-18g-24h-15i26j-16k-12l-13m-17n-18o-20
402=a-14b-21c-16d-18e26f-20g-24h-21i-23j-18k-14l-15m-21n-24o-21
403=a-21b-22c-20d-6e11f-25g-31h-19i19j-10k-17l-16n-23o-26
404=a-12b-8c-8d-17e-14f-18g-22h-11i-26j14k-4l-22m-15n-18o7 408=a-7b-6c-6d-6e-8f-14g13h-13i-4j-9k-4l-4m-10n-3o-8
410=a-11b-13c-13d-14e-11f-14g-16h-13i-15j16k-13l-12m-14n-16o-14
413=b21c-8d-7e-20f-24g-27h-21i-25j-22k-14l-15m-22n-22o-27 422=a7b-3d-18e-8f-17g-19h-15i-20j-6k-6l-13m-8n-17o8
429=a-21b-26c-21d21e10f-4g-32h-21i-28j-25k-15l-17m-26n-27o-28 500=c-5d-22e-18f4g19h-16i-22j-22k-12l-5m-11n-21o-27
502=a-5b-20c-13d-17e-16f7g14h-10i-8j-17k-12l-11m-13o-8
503=a-18b-23c-18d-11e-23f18g3h-20i-24j-4k-13l-14m-21n-23o-23
504=a-9b-13c-7d-12e-9f-14g19h-18i-8j-10k-8l-6m-9n-10o-12 524=a-5b-6c-6d-5e-6f-7g10h-12i-8j-5k-4l-4m-5n-5o-5
529=a-13b-13c-12d-13e-13f14g-14h-13i-14j-13k-12l-11m-14n-14o-13 None=a-5b-11c-4e-5f-5g10h10i6j-8k-13l-12n5o-7
abc=a-4b-5c-16d-5e-5f-4h-12i-10j-15k-8l8m-5n-6o8 aborted=a-7b-5c-5d-12e-7f-10g14h-13i-14j-6l-4m-9n-8o-9
about=c-4i-4j3l-4o-5 above=a-3b11c-7e-3g-6i-3j-6k-5l-4m-9o-6 accept=a8b-4c3d-5e-8f-6i8j-15k-7l-4m-13o-13
accepte=a-10e-3i-6k-4l-3o5 accepts=a10c-3j-5k-4l-5m-6o-7 access=a-10b-5c-9d-8e-4f-9g4h-11i6j7k-11l-7m-16n-16o-11
account=a-16c-10d-8e10f-14g-21h-11i4j6k-7l-11m-11n-14o-6 acme=a-4b-4c9e-6f-7i-5k-7l-3m-6o-13
active=d-4e9f-4h-3i-12j-5m-4n-5 actual=d-4e-7g-4k-3m-4 add=a-10b-6c-6e5f-5g-6j3k-6m-13o-5
additio=b-4c-6e-3g6i-5j-9l-9m-6o-6 address=b-4d-3e-5i4j-5k-3l-3m-3o-5 adjust=e-4g-3l-6o4
admin=a-9c-5e6f-3i4j-8k-5m-7o-8 after=c-6f-14g6h-14i-4j-9k-4l7m-7n-6o-9 again=a-4b-7c-4f9g-4h-8j-10k-8l-3m-6n-9o3
agent=e-6g4i3o-9 ai=a-5b6c-5f-9h-10i-5j-5k-5l-6m-7n8o-8 aierror=a-13b-7c-7d-11e6f-7g8h-5i-5j-5k-7l-5o6
algo=b4c-3o-8 all=a-8b-9c-3d8e-5f6g-13h-6i-10j-10k-4l-10m-6n-6o4 allocat=b-10d5e-6f-4g5h-5i-3
allowed=b10d3e-15f-17g-18h-10j-6k-3l-9m-15n-15 allows=j-3k-6o5 alterna=a-9b-8c-7e-4i-7j-4k-8l11m-7o-10
always=e4f5g13i8k-6l-6m8n8o6 an=a-8b-9c-6d-10e-4f-21h-10j-5k-5m-12n6o10 and=a9c-11d-4f-9g-5h-7i-9m-3o-5
anthrop=c-3d-4f-5i5l-5n-8o-8 any=a-11c-9d-3e-4f-4g-8i-6k-6m-11n10o3 api=a-6c-6f-15h-26i8j-8k-7l-15m-10
applica=c6f-6g6i-8k-3m-9n-4o-5 are=c6e-7f5g-16h-8i-8j-8m-11n-8o-8 argumen=a-5b-8d-4e-12f-4g-6i-9j-7k4l-5m-18n-3o8
arn=j3 array=a-14c-6d-4e-8f-6g-6h-3i-6j-6k-3l7n5 as=a-8b-5g-9l-5o7 assista=a-10b-9c-6d-7e-5g-5i-3j-5k9m-8
associa=c-4 at=a-6b7d-14f4g4h-9i-12j-12k-4l5m-23n-10 attache=a-12b-7c13e-5f-4g-6i-12j-7k-5l-6m-13o-12
attempt=a-6b-8c-7e-9f-6g4h-3i-6j-6k-5l-4m6n-4o-7 audio=a-16b-15c21d-9e-13f-6g-5i-9j-12k-15l-7m-9o-10
authent=a-5b-5c-7d-6e-11f-7g-11h-8i11j-7k-6l-6m-9n-8o-9 authori=a-8b-5c-6d-9e-10f-8g-16h-7i16j-6k-5l-4m-13n-12o-11
availab=b-12c-14f4h-8i-8j4k-14l-12m-16n-12o-7 aws=b-6d-4 back=a-5b-3d7e-5f-8g-4i-7j-4k4l-4m-6o-4
backend=b-4c-4d-4e-3f-5g7h-4i-4k-4l-4m-4o-8 bad=b-10c-8e-10g-8h-7i-8j-5l-5m-18n-12o12
badrequ=b-15c10d-10f-7g-8i-6j-12l-10o-4 balance=a-9b-9c-9d-9e20f-19g7h-14i-21j-13k-6l-6m-16n-19o-11
base=b-10c12g-5j-3k-7l-5m-12o-10 batch=b11c-11d-3e-4i-3k-6l-4o-17 be=a-6b-6d-10e-7g-5h-11i4j3k5m-5n-6o7
because=a-3b-11d-4g-6i-6j-8l-5m7n-12o-9 bedrock=a3b-7d4e-10j-4m-3o-3 been=b-13c-11d6f-9g-7h-9i5k-5l-6n-10o-10
before=a-11b-5c-5e-6g-6h11i-6j-3k-5l-3m-4n-8o-11 beginni=a-13b-15c-10f-4k-7l9m-4o-4 below=a3c4g-7i-4
between=a-10b-5c-4e-3i-5j-4l-9o10 beyond=a9c-7g-4i-4j-6l-4m-8o-9 bias=a-12b-11c-11d-12e-9i-4j-6k-4m-4o12
big=a7b7c-5d-10e-3f-5g-9h-10n-9o-13 billing=a-11b-3c-4d-14e14f-10h-4i-11j-5o-4
block=a-8b-7c-5d-3e-4f-3g-4h8i-7j-4k7l-4m-8n-14o-11 blocked=a-9b-8c-12d-13e-14f-8g-10h-13i7j-10k-8l-9m12n-14o-15
blocks=a-6b-12l8m-10 body=a-18b13c-7d-12e-17f-14g-7h4i-4j-12k-6m-25n-9
budget=a-6b-12c-12d-15e13f-10g-10h-6i-12j-12k13l-11m-10n-6o-22 buffer=a-5b6e-4f-10g-8k-4o-5
busy=a-8b-7c-10d-6e-6f11g-10h-3i-4j-3k-4l-6m-6n-4o-7 but=a7d-10e-4f-8g-5h-5i-11l-16n-6o-3
by=a3b-10e-6h-7i-7j-12k-4l4m4n-4 byte=a-5b4g-4o-7 bytes=a-17b13d-9e-9f-6g-7h-4i-7j-13k-6l-8m-11n-4o-19
cache=a-6b-13d-7e-3f-13g-7k-5l-4m-3o11 calcula=c-3 call=a-4b-23c-12f-11h-11i-13j-12k-4l19m-10n-11o-8
calling=c-15e-4f-12i-5j-15k-12l-9o8 calls=a-10c-7d6e-4f-8g-11h-8i-5j-6l11m-6n-6o-11 can=b-8c-3f-5i-5j-9k-6l-7o7
candida=a-4b-5c-6d-5e-8f-7g-14h-8i-10j-5k-3l-3m-3n12o-12 cannot=b-9c5d-6e-8f5g-3h-5k-3l-14m-9n-9
cap=b-4c3d-9g-5i-4n-3 capacit=a-9c-12d-16e-5f19g-16h-5i-9j-13l-5m-4n-4o-10 cause=g-4h5 certain=c4
certifi=a-4b-4c-4d-6e-6f-6g8h-8j-5m-8n-11o-4 cf=f6g-7o4 charact=a-23b13c-20d-8e-10f-9g-8h-5i-7j-7k-14l-8m-12n-6o5
chars=a-12b6c-9h-5n-8o7 chat=a-3c-12e-10f-6h3i-11k-5l-4m-12n-13o6 chatgpt=g-7i-3j6k-4o-8
check=a-7b-6c-6e-7f-6h-5k-7l-8n-3o6 choice=a-9b-8c-11i-4j-12k4l-9m-4o7
choices=b-5c-3d-6e-4f-7g-10h-11i-6j-5l-5n7o-4 chunk=e-4f-4g-6h7i-5j-4n-11
claude=a-6b-15c-13d-9f-6g-4i9j8k-10l-5m-8n-4o-5 client=f-8g7h-5i-10j-4k-4l-4m-10n-5o-10
closed=a-9b-11c-7d-9e-5f-14g4h8i-15k-5l-7m-10n-10o-12 cloudfl=a-3c-3d-9e-3f-6g6o-3
code=a-7b-6e-19f-9g6i5j-4k-11l-5m-20n-14 codex=a-3c-5i-6k-5l-3m-8o6 coding=e-6i5o-3
column=a-4b-5c-3g7h-3i-3j-3l-4n-5o-5 com=b-5c-4e-5f-5g10h-6i-8j-4l-3m-3n-8o-8 come=c-4d-11g-4l4o-4
compact=a7c-3g-7i-4n-3o-9 compati=a-5c-7e-4f-4i-4k-7l-11m-10o6 complet=a-9b-8c-15d-13e-4f-12g-5j-4k-10l-7n7o5
concurr=b-3d12e-17f-4 config=a-4c-6d-4e-7g-7i-10k5l-7 configu=a11c-8e-5j-4k-5m-4o-15
connect=a-8b-3c-9d-14e-10f-9g15i-16j-13k-5l-7m-8n-14o-9 conside=a4b-3c-3e-4k-7m6o-8
console=a-7b-3d-6e-4f5h-3i-6m-4o-7 constra=a-5c3o-3 contact=a-7d3k-5 contain=b-11d-7e-5f-5g-6h-14i-7m8n8
content=a-4b-8c-11d-9e-15f-15g-7i-23j-18k9l-11m18 context=a22b-37c-25d-26e-5f-21h-20i-23j-22k-17l-17m-22n-21
continu=a-3d-4e9f-4g-3i-10 control=a3c-3d-3g-5i-4k-4l-4m-3 convers=a17b-6c-10e-11f-6g-11h-4i-9j-13k-6l3m-16n-4o-15
copilot=a-6b3d5e-7 correct=k4o-6 corresp=f-3i-3j5k-3o-9 corrupt=a-6b-7c7d-4e-6f-5g-5i-8j-7k5l-7m-11n-3o-10
cost=a-7b-8c-6d-5e9k-5m-3o-4 could=b-14d-4e-7f-8h-7i3k5l-11m-5n-8o-6
count=a6b-13d7e-5f-8g-5h-4i-6j-13k-7l-5m-16n-4 crashed=a-7b-3c-7d-4f-9g10h-4i-4j-10k-4l-9m-8n-6o-7
create=a-13b-5c-5d-5f-4g-13h15i-6l-6m-19n-20 credent=a-7b-8c-8e-8f-11g-16h-8i14j-15k-6l-7m-8n-11
credit=a-7b-6c-6e9f-4g-5h-3i-8j-8k-4l-4m-5n-5o-10 credits=a-8b-9c-11d-13e18f-9g-10h-6i-15j-16k-8l-9m-8n-10o-16
ctx=a7c-7e-5i-5j-7k-10l-6m-10 cuda=c-3d-3e-3f-4g6h-5 current=a-9c-16d6e7g-11h-5i-4k-9l-11m-10n-8o-6
daily=a-15b-6c-6e8f-5g-4i-5m-4n-4o-9 data=a-4c11d-9e-6f-5g-12h6i-7k-3l-6n-5o-9 day=a-10d8e-8
deadlin=a-12b-11c-6d-11e-11f-10g15h-8i-5j-4k-4l-5m-8n-4o-9 decode=b-8c4d-11e-7f8g-14h-6i-11j-12k-5l-5m-13n-5
deepsee=c-9g-5i-4k-11l-7o8 default=a-7b-7c-6d-11e-7f-15g-13h-7j10k-4l-6m-6n-5 defined=a-6g-4k-7m3
degrade=a-5f8g-4i-3j-8l-5m-3o-9 demand=a-4b-3i-8j3o-3 denied=a-5b-5c-4f-9g-12h-11i9k-5l-4m-14n-15o-10
deplete=a-7b-3c-4d-12f12g-15h-6i-15j-4k-3m-5n-9o-7 deploym=a-6b-10c-9d6e-4f-10g-4h-8i-11j10k-5l-6m-4n-8o-14
depreca=a-7c-4e-4j7m-5 desc=a-5c-5e-3f-7g-7h-7i-12j7l-6n-5 details=a-9c5d-3e3f-5i-5j-3k-3l-7m-3
detecte=a-15c-7d-7e-12f-5g-6h-5i-17j-8k-7l-9m19n-5o-18 develop=c-10d-4e-4f-3i-10j-3k-9l-12m-8o13
did=a-3c-6e-3g-6i-3j-9k-4m-6n7 dimensi=a-4b-11c6d-7e-6f-5g-7h-5i-4j-4k-5l-5m-3n-4o6
disable=a-9b-4c9d-7e-11f-6g-11h-4i9j-9l-5m-11n-4o-9 disconn=a-5b-11c-4e-4f-11g8i-5k-3l-3m-4n-7o-12
do=g-6i-4j7m-3o-9 documen=a-12c10d-8e-10f-6g-6h-3i-18j-14k-16l-10m-12n-3 does=a-3b-10d-6f-6h-6i-13k5m-10n-11
doesnt=a-8c-5j-7k-7l-6o7 dont=e-5i6j5m-3o-10 down=a-13b-13c-7d14e-16f-20g3h-14i-17j-4k-12l-12m-16n-16o-16
downloa=a-5c8g-4k-3l-4m-4o-5 due=a-6b-4c-4e6f-4i-7j-5o-4 duratio=a-14b-13c15d-6e-7f-6k-3m-4o-12
during=a-6b-6d-9e-5f10g-7h-5i-10j-6l-3m-13n-3o-15 each=b-7c5e4i-11j-3m-7o-6
econnre=a-5b-5c-10d-7e-6f-10g11h-12i-8j-4m-7n-9o-6 effort=a-4b-5c-13e-4f-5i-5j-11k17l-9m-11n-3o-19
either=a-5b-3c-4i-4k-7l-11o8 element=a-15b-9c-12d-5f-4j-10k-8l-8m-11n-7o14 embeddi=b-8c-9k-5l-4o9
empty=a-15b-12d-13f-15g-20h-19i-17j-20k-15m-23n19o7 enable=a3c-10f-4j-7k4l-5 enabled=a-9b-3i-7k11l-6m-4o-8
encoded=a7c5g-4j-4o-10 encount=b-4d-4e-3f-13g5i-4j-4l-4m-3o-9
encrypt=a-12b-14c10d-6e-8f-8g-6i-7j-10k12l-9m-17n-3o-20 end=a-9b-13c-13d-13f-9g7h-14i-15j5k-11l13m-13n-5
ended=a-5b-5c-5d-11f-12g-6h9i-13j-4k-5l-4m-8n-4o-17 endpoin=a-7b-14d-6e-8f3g-10h-10j10k-4l-10m-11n-10o-10
engine=a4b-11c-8d6e-8f7g-5h-5i-7j-12k-7l-6m-10n-6 enough=b-8c-12d-4e13f-4g-14h-3i-17j-15k-11l-13m-16n-6
ensembl=a-4b5o-7 ensure=a-4b5e-5g-4k-3l7n-3o-12 entity=a-12b11c-10d-15e-4f-6g-8i-6j10k-7l-4m-5o-23
eof=a-3b-4c-3d3e-6f-7g6h-7i-5j-6l-3m-4n-5o-7 equal=a-8i-8j-4m-5o6 err=b-4c-3d-3e-4h6i-11j-6n-4o-6 error=g6m-6n-15
errors=b5c-7d-7e-5i-4j-5m-4n-3 estimat=a8b-4c-5e-4k-3o-7 event=a-5b-3c-3d-4e-3f-6g-8h11i-5j-3k-4n-8o-7
example=a-9b-7c-7d-9e-11f-4g8h-6i-15j-7k-5l-4m-10n-10o5 exceed=a-5b-11e4f6g-19h-8i-12j-9l-16m-16n-9
exceede=a3b7d8g-11h-8i-27j-22k-4l-16m-18n-25o-11 exceedi=b-3c4g-5i-6m-3o-4
exceeds=a-3b9c6d-19e-13f-6g-21h-15i-14j-12k-4l-11m-23n-11o6 excepti=b-6c-5d6f-8g6h-10i-14j-11m-8n-7
exhaust=a-9c-12d9e8f-3g-21h-13i-24j-14k-7l-7m-9n-13o-10 exist=c-13e-6f-5g-14i-6j13l-5m-6n-9o-11
exit=a-7b-4c-8g8i-4j-8k-4l-8m-6o-5 expecte=a-7b-3c-5e-8f-7g4h-4i-5j-6m-8n-6o5 experie=a-3d-11e-4f9g-3
expired=a-9b-9c-9d-13e6f-13g-12h-15i10j-12k-5l-6m-15n-16o-13 extra=a-13b-10c-10e10i-7j-8l-8m-8
failed=e-13f-4g8h-27j-6k-8l-18n-8 failure=a-5b-5c-4d-9e7f-10g8h-6j-6k-7l-4m-5n-8 false=b-3c-3g-3i-6j-7k4l-5
fetch=a-3b-7c8d-4e-5f-9g10h-9i-12j-4k-6l-7m-13n-5o-7 fewer=o-3 field=a-16b-12c-15d-5e-10f-6g-13h-4i-13j-8n-5o11
fields=a4b-11c-7d-12e-4f-5g-7i-4j-4m-4o8 file=a-11b-17c24d-11e-8f-7h-5i-7j-9k-11l-14m-11n-11o-5
files=a-9b-9c11d-3i-4o-8 filter=a-5b-8c-7d-4e-4f-4g-9h-11i-6k-4l-6m12n-13
filtere=a-5b-6c-6d-4e-5f-4g-7i-5j-6k-11l-12m10n4o-12 filteri=a-5b5c-3g-6i-3j-6k-4m6o-8 final=g-4h4l-10m-6n-10o5
find=a-3e-3g-6j6k-4n-3o-4 finish=a-4b-7c-6d-9e-4f-8h5i-11j-6k-4l-3m-7o-7 first=c-3d-6e-8f-5g-10h7l5m-7o-12
fit=a6f-9g-3o-7 flagged=a-13b-5c-6d-4e-9g-4i-7j-6k-4m12o-11 flash=a-5b-4e-5g3i-6j6o-13 follow=c-4k-4l6o-6
followi=a-5b3c-8j-3k5l3m-5o-9 foo=a-17b-11c-16e-9f-11g-12i-7j17k-12l-7m-11n-3 for=b-7c-5g-7h6l5m-5n-16o-3
forbidd=a-6b-6c-6d-8e-8f-5g-7h-5i9j-6k-7l-4m-11n-6o4 format=a-10b-11e-4f-8g-4i-10j-9l5m-7 formats=c5k-3l-3o-6
found=a-5b-8c-7d-15e-15f-5g-23h-16j8l9m-11o-7 free=a-4b-4c-3e9f-10i-4j-9m-4o-5
frequen=a-3b-4c-4d7e-7f-4g-9i-5n-5o-11 from=a-17c6g-3i4j-12k-4l6m-18o-7
full=a11b-6c-6d-13e-15f9g-10h-6i-6j-5k-6l-3m-5n-6o-12 functio=b-11c-17d-6e-9f4h-5i-9k-6l6m-10n-4o5
gateway=a-9c-8d-10e-4f-12g12h-12i6j-11k-7l-7m-15n-13o-15 gemini=a-6b-7c-3e-6h-5i-3j5l-5o-11
generat=b-6c-8d-4e-5f-7g-8h-12j-9k-11l-12m-9n11o7 get=f4 given=a8b-5e-5f-4g-3h-3i-5j-4k-5l-4n-3o-5 glm=d3e-4
go=d-6f-3g8h-10i-5n-9o-8 good=e9i-10j-5 google=a3i-4o-8 got=a9b4c-5d-8f-7h-5i-11j-8k-14l-7m-10n-9o-7
gpt=a-5c-5d7e-11f-9g-6h-4n-4o-9 greater=a-3b-14c-10f-6g-3k4o6 grok=c-6j-4k4o-5 group=f-4i-8j6k-4o-12
guardra=a-11b-11c-11d-7e-8f-8g-7h-3i-10j-4k-11l-10m12n-3o-13 had=f-4g8j-9n-6o-15
handle=a11c-4e-5g-4i-4j-4k-3m-4o-17 hang=a-4b-3c-3d-4e-7f-8g9h-6i-6m-3n-6o-4 hard=a-9c-3d-7e8
has=a4e4f-13h-11k-12l-4m-10n-12o-13 have=a-4b-3c-4d5e5f-5g-10j5k-12l-7m-10n-5o-3
header=a-15b-14c-12d-16e-7f-8g5h-8i5j-12k-6l-5m-9n-6o10 headers=a-3c-3f-7g-9h10i-7n-3
heavy=a-4b-5c-5d-5e4f7g-9h-3i-8j-5 height=c6k-3o-3 here=a-3b-7c-5d-8f-4g-8h-6i-10j9m-4n-4o-17
high=a-15b-7c-10e-12f7g-11h-4i-7j-8k5l-5m-4n-5 higher=a-4i-3 history=a7c-5k-4l-6 hit=b-5c-6e5f-6g-5h-5i-5n-6o-7
host=a-4d-3f9g-8h-6i-3m-4 however=a10o-16 http=b-5c-14d5e-5f-16g9h-15i-9j-5k-3l-12m-20n-11
id=a-14c-17d-9e-9h-9k-4m-17n-8 identif=a-5b-4c-5f-9g-4i-5j9k-6l-4m-9o-10 idle=c-3d-4e-3f-6g-12h8i-5j-3n-5o-4
ids=b-6c-4i-4k-4l12m-7o-12 if=c-7g-8l-5o6 illegal=a-8b-5c5o-6
image=a-19b-30c33d-10e-15f-8g-6h-11i-18j-20k-15l-15n-11o-31
images=a-20b-31c30d-13e-17f-9g-8h-4j-18k-15l-11m-5n-4o-14 immedia=e4i-4 in=b-19d-6l-5
include=a-5b-3d-3e5g-6i4j-17k-8l-11m-5o-3 incorre=a-18b-17c-19d-14e-9f-9g-9h-4j6k-14l11m-20n-4o-6
increas=b-8d6f-5g-5j-4l-4m-4o-7 index=b-7k5l-7 indices=a4o-6 inferen=a-8b4c-6e-3f-13g8h-3i-5j3l-5m-6n-5o-13
informa=a-10b-6c-9d-4e-5f-5g7i-11j-14k-5l7o-8 input=a19d-7e-18f-12g-16h-9i-17j-25k-12l-11m8n-13o-9
inputs=a16b-3c-6d-4e-10f-6g-3i-9j-8l-7m-9n-4o-5 instead=a-15c-5g-3j-4k-4l-7o10 instruc=b-3c-3j-8k-7
insuffi=a-13b-8c-9d-16e15f-10g-20h-16i5j-8k-7l-9m-18n-21o-14 integer=a-13b-12c-5i-4l-8o12
interna=c-9d-13e-16h-17i-3j-16k-4l-7m-11n-12 interru=a-5b-5c-7d-8e-5f-13g7h5i-11j-5m-14n-15o-17 into=b-4e-7f-3o-3
invalid=a-3b-7d-20f-12g-7h-16i5k3l3n-22o4 invocat=j3 invokem=a8b3d-3e-3g-4j4o-14 ip=b-8c-5d7e-13f-4j-3m-3
is=d-7f14g-9h-18i-5l-12m-12n-12 issue=c3f-3i-6j-5m-3o-4 issued=a-4b4c-3g-5 it=b4c-8d-10f-6k-11m5n-5o-17
item=a-5b-4i-4j-7k8l4o-15 items=a-15b9c-9e-3i-3j-7k5l4m-3o-5 its=a4b-12c-12d-4e5f-4i-12l-4m-8o-12
jinja=a-5b-5g-4m-3o4 json=a-17b-9c-15d-11e-10f-10g15h-13i-18k-11l-18m-16n-15o12 kb=a-7b6c-5o-3
keep=a-10b-12c-11d-14f-11g11i-12j-15k-9l-11m-14o-12 key=a-20b-18c-17d-9f-9g-16h-8i22j-12k-13l-12m-15n-15
kimi=a-3b-3e-5f-6g5h-7i-5j6l-4n-7o-4 languag=a-3b-5c-14d5e-10f-11g-12h-4i-14k-11l-7n-10o10
large=b5c4d-5e-11f-15g-18h-4i-9j-5k-6l-7m-11n-4 larger=a-4b11c-4d-9e-5f-5g-5h-5i-5j-5k-5l-4m-8n-3
last=b-5c-5e-5g-3i-4k-9l12o-16 later=a-11b-11c-8d12e-5g-6h-6i-11j-7k-5l-6m-8n-6o-11 learn=c-4i-3l-3
least=a4b-12c-11e-6f-6g-4h-3i-7l-10n-4 len=a14b-11c-4g-4o-17
length=a16b5c-10d-14e-17f-18h-7i-11j-13k-16l-18m-20n-8o-10 less=d-4e-5g-4h-3i-8j-4k-10l-7m-5n-4 library=c-4o6
life=a-7d-4e-6f-3j7l-3 like=a-4c-3d-9e-3f-4g-6i7m-6n-5o-5 limit=a8d6e7f-20g-31h-30i-29j-25k-8l-20m-32n-33o-3
limited=a-7b-5c-6d8e-8f-11i-6j-6k-4n-3o7 limits=a-11b-8c-11e5f-11g5i-5j-3k-6m-3
line=a-5b-5c-4d-4e-8f-5g7h-3i-10j4k-4l-5m-5n-5 list=a-16c-6d-6e-4i-3k-9l-6m-14o8 lite=e-3g3
litellm=c-5d-7e7f-6g3h-9i-4j-4l-3o-8 live=a-5g-4i-6j6o3 llama=b-5c-3h-3i-4l-4m-5n-6o-14
llm=a5b-14c-7d-8f-11g4j-7k-6l-11m-6 load=a-12c3d-7e-7f11h-11i-7j-6k-5l-4m-7n-6o-7
loaded=a-8b-7c-10d-5e-8f6h-13i-7j7k-6l-5m-8n-8o-14 loading=f8g-7j-14 locatio=c-7d9e-15i7o-12
login=a-4b-4c-6d-8e-6f-6g-10h-8i10j-6k-4m-11n-10o-12 logit=a-12b-11c-11d-12e-9i-4j-6k-4m-4o12
long=a6b4d-10e3f-14g-13h-9i-10j-15k-9l-17m-17n-14o-5 longer=a4b-11c5d-3e-7f-12i-12k-8l-6m-10n-5o-5
low=a-7b-5c-5d-4e7f-4j-6k8l-3m-4o-10 lower=a-9b-10c-7d8e-12f-12g-12h-10i-11j-7k-3l-4m-6n-8o5 make=e6j-6o-4
malform=a-8b-13c-10d-10e-5f-13g10h-12i-10j-11k-7l-10m-16n-11o12 many=a-3b7d7g-9h-15i-18j-11k-12l-10m-13n-17o-10
match=a-6b-9c-4d-5e-5f-5g4h-5i-7j-6k-4n-5o3 matchin=b-3c-3l6m-3o-8
max=a-7b14c6d-11f-15g-20h-18i-15j-17k-14l-14m-22n-22o11 maximum=b12c4d-12e-18f-8g-10h-12i-25j-22k-15l-18m-28n-10o4
may=a-16b3d-6e-6f-10g-4l-9m9o-16 mb=a-13c14d-16e-11f-13g-8h-6i-7j-8k-8l-7m-10n-6o-20 media=a-4c5o-3
medium=a-4b-3j-5k8o-9 member=a-5c3o-3 memory=a-5b-5c-4d-4e-5f-7g8h-5i-4j-3k-3l-4m-4
message=b12c-9e-24f-9g-13i-24j-18k-6l7m-10n4 meta=j-7o-3 method=a-6b-14c-12d-9f-7g-12h-4i-18j-13k-7l-9m-8n-10o13
mib=a-8b9c-8d-5e-4f-4o-9 mime=c10k-4l-3o-9 min=d4e-3 mini=a-6b6o-3 minimal=j-5k5o-5
minimax=b-3c-4e-10f7g-4i-6k-7m-3o-13 minimum=a-20b-5c5d-3e-4f-3j-3l-7m-4o15
minute=a-14b-7c-10d13e-12f-5i-5k-6l-6m-3o8 minutes=a-10b-10c10e-3f-8i-4k-5l-4m-7o-10
missing=a-17b-7c-14d-13e-11f-13g4h-18i10j-7l5m-16n-19o5 mm=a-3c4 mode=a-7b-4c-17d-6f4g5h-3i-6j6l-9n-7o-5
model=b-25d-11e-7g-9h-23i-15j23l-14n8 models=b-18c-4e-9f-5g9h-4i-7k-11l-11m-9n-8o4 moderat=a-6c-3e-7i-6j-5m7o-3
module=a-4b5j-5k-3l-6 moment=a-3c-3d-4e-4g-6i5m-4 month=a-7d-11e10i-3
monthly=a-8b-6c-5e10f-4g-7h-5i-9j-4k-5l-3m-4n-8o-4 moonsho=c-3d4e-4f-4g-7h-5i-10j9l-4n-6
more=a10b-8c-8e4f-7h-4i-11l-9n-5o-6 most=b11d-4e-9f-12g-6h-3i-8j-8k-11l-21m-11n-3 mp=c5j-4k-4l-3o-8
ms=a-3b-8c5f-4g-5h6i-4j-3n-5o-4 msg=a3b6c-7d-6f-4g-6h-3i-5k-4l-7o-6 multimo=a-12b-4c16e-6f-8i-5j-16k-10l-6m-12o-13
multipl=c3o-4 must=a-3c-14d-13e-16f-10g-18h-11j-21l10m-23n-14o6
name=a-16b-23c-10d-7e-3f-9g10h-7i-15k-5l-5m-9n-9o13 need=b-4c4g-6l4o-5 needs=b-3c-5g-3i-9k-3m-4o-5
net=e-4g7h-13i-5j-5n-4o-5 network=a-10b-10c-10d-11e-13f-13g11h-10j-11k-5m-10n-13o-12
new=b-7c-6d-5e-7f-4g-7h-7j-3l-3m6n-9 no=a-17b-3c-13d-13h4k-18l-4m-21n11o-6 non=a-8b8d-6e-6g-6l-8m-7
none=b-12c-5f-7h-3i-5l-6m-3 not=a-23b-4d-20f-10g3h-14i8j6l4m-9n-6o3 now=a-7c-8g-6k-4l-8m-3o6
null=a-4c-11d-3h-3k-10l-3m-4n4o5 num=a9b-3c-7e-5j-6k-9l-5m-8o-3 number=b8c3e-12f-5g-3i-14j-8k-10l5m-9n-4o-8
nvidia=b-8c-3f8g-4i-4j-8k-5l-5m-3o-10 oauth=a-14c-4d-9e-10f-5g-10h-13i14j-12k-4l-5m-6n-9o-10
object=b-14c-4d-5e-3f-3g-4i-4j-4k-7l-8o9 occurre=c-6e-7f-7g10h-11i-6k-6l-6n-5o-9 of=b8d6e-10g-6h-16i-5j-5k-6l-9n-9
ollama=a-6b-4c3k-4o4 on=a-5b4c-14e8f-4g-13h-5j-4k5l-6n-5o-13 one=a-3b-12c6d-4e-4g-5i-6j-7l-16m-7n-3o9
only=a4b-16d-7e-10f-12g-4i6j-20k-4l-14m-9n-3o9 open=a-7b-10c-5d4f4g-9m-5n-6o-4 openai=c-7d-5f-8g7h-13i-6j4k-7l-5
openaie=g6o-4 openrou=d-7e-3f-5g5i-7j6k-3o-9 operati=a-3c-12d6e-4f-18g6i-16j-7k-6l-8m-14n-10o-12 opus=d-3e3j-6
or=a-9b-9d-11f-13g4h-9j4l-6 org=a-4c-3d5e-6f-3i7j-8m-6o-7 organiz=a-7c-5e-6f-4g-5i9j-5k-5l-3m-5o-3
origina=a-9b-5c-8i-3k-4l-11m-12o11 other=a-5g4h-10i3k-4o-5 our=a-9b-4c-4e-7g-4h-3k-3l-5m8o-10
out=a-6b-14c-10d-19e7g5h5i-6k-10l-10m-19n-10o-8 output=a-20b-23c-20d-6e-12f-16g-14i-14j-16k6l11m5n11o4
over=b4c-4d5e6f5g-19h-17i-17j-10k-8l-11m-9n-12o-16 overdue=a-3b-4c-3d-9e11f-9i-10k-3
overflo=a11b-11c-9d10e-15f-14g-18h-12i-12j-8k-4l-7m-9n-9o-18
overloa=a-7b-10c-8d-18e-9f20g-17h-13i-9j-14k-7l-6m-8n-11o-12 page=a-6b-10c5e-11f-8g-9h4i-8j9k-7l-5m-4n-3o-16
pages=a-10b-21c17d-6e-7f-5g-4i-8j-10k-5l-9m-6n-3o-16 paid=b-3d-10e9f-7i-4 paralle=b-5d12e-15f-4i-7o-3
param=d-4e-12f-9g-14h-4i-18k-10l-12m-18n-5o4 paramet=a4d-7e-10f-6g-14h-4i-16j-23m-13n-4
params=a6b-10d-4f-3g-3h-5i-6j-9k-7l5m-13n-11o3 parse=a-12b4c-7d-12f-5g-13i-6j-11k-3l-3m-9o7 part=b5c-5d-3
parts=i-4 pass=a-3c-4e-7i9j-3m-5o-10 passed=d4f-5g5h-8 passwor=a-3b-4c6e-3f-4j-4k-4m-4o-5
pattern=a-4b-7d-4e-4f-4g-12h-4i-8j-5l-9n-4o11 payload=a-7b20c-19d-3e-8f-10g-7i-9k-9l-13m-17n-4o-3
payment=a-4c-4d-5e9f-5g-4h-4i-13j-4k-4l-3m-5n-4o-5 pdf=a-15b-11c21d-9e-11f-10g-6h-3i-9j-13k-18l-8m-19n-5o-17
per=b-15c7d14e-16f-9g-12h-10i-8j-11k-7l-9m-14n-8o-7 perform=e5j-6o-5 period=a-4d5e4i-7
permiss=c-3d-4e-18g-3i14j-15l-4 permitt=a-17b-9c-11e-9i-8j-8k-4l-8m9o4 pixels=a-12b-11c11d-8e-11k-3m-6o-10
plan=a-12b-12c-12d-12e16f-11g-15h-11i-19k-7l-4m-14n-17o-14 please=b-10c-4d5f5g-7h-16i12j-9k-14l-5m-9n-18
plus=a7e-3i-4k-3o-14 png=c6o-10 policy=a-8b-8c-8d-9e-8f-7h-5i-7k-10l-8m13n-8o-10
portkey=b-4c-5d-5e5f-5g-7i-10j-8k-7m-3o5 positio=a5b-9c-4i-4l-9m-3 positiv=a-13b-3l-4o10
post=a-10b5c-10d5e-6f-6g-9i-7j8k-5l-4m-3n-3o-3 pre=b-9g-4o-4 predict=a7d-8g-4o-11 prefix=a10b-11c-7d-3g-4l4o-8
previou=b-3d-3e-9g-4i-9j-5k-4l11o-4 pro=a-5c-3f-10i6k-8n-4o-13 process=a4b-10e-9g5h-5i-12j-14k-10l-9n-5o-12
produce=b-4c-3e-3f-7g-8h-5i-4j-7k-3l-3n8o-9 profile=d-3e-4g-3h-5i6l-3n-4 project=d-7e4i-8
prompt=a22b-19c-11d-11e-10f-11g-16h-7i-22j-25k-13l-12m6n-11o-5 propert=a-12b-10c-12d-5e-5f-5g-6i-6j-5l-4m-5o13
protect=a-3b-4c6e-3f-4j-4k-4m-4o-5 provide=a-7b7e-19g-8h-10i3k-9m-9o-3
proxy=b-5c-4d-5e-11f-7g3i5j-6k-5l-4m-7n-6o-13 purchas=a-6b-9c-11e12g-8i-11j-10k-6l-9m-9o-10 px=a-6c6d-4
quickly=a-4b-4c-4d5f-4m-3o-4 quota=a-18b-7c-8d-5e20f-12g-8h-8i-18j-6k-9l-5m-7n-4o-17 qwen=a5e-3i-4j3k-4o-4
range=c-9d-11e-8f-10g-10h-8i-6j-7k-8l-7m-7o7 rate=a-16b-13c-12d19e-10f-8g-19h-15i-9j-6k-3l-5m-6n-3o-8
ratelim=a-5b-5d3g-5 reached=b-13c-17e12f3g-16h-7i-21k-7l-8m-14n-11o-19
read=a-8b-7c9d-11e-9h7i-17j-13k-5l-8m-11n-14o-11 ready=a-5b-7c-6e-5f12g-14i-5j-10k-5l-4o-7
reason=a-11b-6c-6d-9e-7f-9g7h3i-13j-6k5l-5o-12 reasoni=a-12b-12c-18d-5e-9f-5g-7h-6i-15j-17k27l-13m-15o-26
receive=b4c-11e3f-5g-5h7i-13j-8k-13l-15m-17o-4 redacte=k6l-5o-8 reduce=d5e-9o-5 refer=b-3d3e-3f-4i-5k-3o5
reforma=a-5b-4c-3d-5e-4g-4i-6j-4l-6m-6o8 refresh=a-8b-3d-5e-8f-4g-9h-7i9j-5m-3n-9o-5
refused=a-9b-5c-7d-8e-10f-13g7h-12i-12j-11k-6l-3m9n-17o-11 region=a-4c-8d-3e-14f-8g-11i4j7k-4n-3o-6
registr=c-4j-4k-4l-3o7 rejecte=b-3c7f-16g-15h-4i9j-9k-11l-8m-5n-7o-17 remaini=a-11e8i-10j-7o8 remove=k-3l4
renew=e-4i5m-3o-8 request=b7c-6d10e-4h-25i-7j-5k-5m5n-16 require=a-17b-15d-11e8f-13g-18h-15i8j-7l-8m-9n-16o7
reset=a6b-7c-9d-11f-7g7h-10i-6j-3m-3n-4o-17 resets=a-7b-3c-4d-5e8f-3m-3o-4
resolut=a-4b-5d-4e-3f-7g7h-4i-8j-6k-10m-4n-4o3 resolve=c-5e-3g4h-3i-5j3k-4m-4n-4o-7
resourc=a-7c-5d11e-8f-3g-5h-10k-6l-7m-8n-11o-14 respond=a-5b-5c-11d-8e-6f-13g-5i-12j-14k-5l-4m12n-18o-11
respons=a-6b-14c-22e-6f-9h9i-22j-19k-15l11m-5o4 restric=e-7g-3i6m-3o-4 result=b-5d-4e-5f-5g-11h-4i-5j-4k-4l10o-14
results=a-12b-3g-4j-3k-4l5m4 retry=a-7b-7d10e-9f4i-16k-6l-9n-8o-11 returne=a-8b6c-9d3f-4g-7h-13i-3j-4l-14m-4n12o-5
review=d4e-8 right=a-3b-4e-4g-4i-3m-3 role=a-21b-19c-16d-8e-17f-8g-9h-4j-19k-6l12m-19n-4o5
roles=a-12b-8c-7e-4f-4g-3i-7j-4k-8l12m-7o-10 route=a-4b-11c-5d-12e-7f-5g-8h-6i-10j13k-4l-5m-4n-10o-18
row=b-10c-10i-11j-5k-8l11o-15 rpc=a-5c-5e-3f-7g-7h-7i-12j7l-6n-5 rpm=a-5b-5c-4d12e-13f-6n-5 rs=c-3i-4j-6k8l-3o-11
run=a3c-5d-7e4j-4o-3 runner=a-6c-4f-8g7j-5m-5n-4 running=a-3b-5c-4e4f-5i-7j4k-5l-3m-3o-11 runtime=a8b-10c-5g-4
safety=a-10c-7d-4e-5f-4g-7h-3i-5j-4l-6m9n-3o-10 satisfy=a-5c3o-3 schema=a-12b-6c-10d-7e-4f-6g-5i-4j-6k-6l-5m-11o11
search=a-8b-6c-10j-6k-9m-9o11 seconds=a-10b-10c6d11e-21f-13h8i-9j-13k-5l-5m-5n-15o-9
see=a-15b-4d-4e-4f-6i-5k-4l-7m-9o7 selecte=a-5b-5c-12d3e-8g-5i-7j-13k-7l-8m-11n-12o11 send=b4d-3o-4
sending=e-6f-5g10h-13i-4l-4n-3o-4 sensiti=a-7b-5c-4d-5e-3f-4g-6h-11i-4m11n-13o-7
sent=a12b-12d6e-8f-5g4h-7i-7j-7l-5m-6n4o-20 seq=a12b-11c-3g-4o-16 sequenc=b-19c-14d-6e-6f-5g-5i-5j-4k-5m-3o8
server=c-11e-20g12h-7i-7j-6k-13l-5m-7n-17o-10 service=a-14b-9c-17d-6f14i-7j-6k-4l-5m-8n-8o-15 serving=l4o-4
session=a8b-12c-11e-6f-7g-13h-4i-11j-4k-5l-5m-7n-4 set=c-6d-4j-7k3l-5m-4 setting=a-4c3o-3
shorten=a12c-5d-3e-8i-4j-3l-4m-12o-11 shorter=a4o-10 shortly=c-3d5e-5g4j-4
should=a3c-12d-5e-5f-5g-13h-5i-10j-6k-4l-8m-18n-5o8 side=g6h-10
signatu=a-11b-11c-13d-9e-16f-8g-7h-6i5j-12k16l-9m-16n-7o-15 signed=a-7b6c-5d-7e-7f-5g9h-8i-11j-5m-7n-10o-10
size=a4b16d-18e-15f-8g-28h-9i-15j-16k-16l-12m-14n-10o-7 small=a-12b-6d-8e-9f-12g-6i3j-3k3m-5o9 smaller=b5d-9o-3
socket=a-5b-3c-3d-5e-7f-8g10h-13i-6m-3n-6o-4 some=a6l-6 somethi=a-5b-4c-6d-6e-5f-5g6i-9j-4l-3m-9n3o-9 sonnet=j3
sorry=b-4c-3e-4i-6l-3m4o-6 source=a-5b-10c10d6e-4f4g-12h-8i-10j-6k-5l-6m-12n-8o-9
specifi=a10c-5d-6e-4g-4i5j-14k-13l-10m-5 spend=a-10b-6c-5d-7e13f-4i-9k-7l-7o-8 spendin=a-3c-3d-9e5f-4i-5j-3
stack=a-13b-15c-12d-9e-5f-8g-6h-7o12 stalled=a-7d-9e-6f-6g-12h14i-8j-4n-15o-8 standin=e9i-10j-5
start=b-16c-9d-9e-4g-13h13i-7j-13l5m-17n-22o-14 status=a9b-11c5d7e-11g-5h-12i-4k-4l-10m-6n-8
stop=a-19b-20c-13d-8e-7f-5h3i-8j-5k-6l-6m-5o18 stopped=i-4m4o-6 store=a-5b-8c-6e-4g-4i-9j-12l-7n-5o11
stream=a-13b-14c-17e-17g-7h12i-26j-18l-13m-18o7 streami=a-7b-4c-9d-4e-13g-12h9i-7j-17l-5m-4n-4o11
string=a-20b9c-14d-5e-5f-4g-11h-3i-8j-6l-14m-14n-3o10 submit=j-4o-6 submitt=a10b-4c-4e-4g-12l-3o-4
subscri=a-11b-4c-4e16f-6g-10h-6i-14j-16k-4l-4m-10n-7o-11 such=a-5b-5c-4d-5e-5f-8g-6h-5i4j8l-3m-4n-9o-13
sum=a15o-17 supplie=a-11b-4k6l-3m-3o6 support=a-4b-21c11d-12e-12f-20g-21h-7i3j-4k6l-5m-18n-12o3 sure=e6j-6o-4
suspend=e3i-5 switch=a8o-14 system=a-10b-18c-15d-5e-6h-4i-15j-11k-13m7n-4o4
take=a5b-6c-7d-9f8g-5i-7j-12l-8m-8n-4o-10 task=d-4g5h-12i-4n-7o-3 team=d4e3i-5
tempera=a-13b-17c-15e-8f-5i-12j-10l-10m-11o16 tempora=a-8b-7c-7d-7e-13f15g-11h-15k-4l-6m-10n-16o-15
termina=a-7b-4c-8d-7e-6f-6h6j-10k-4l-3m-4n-7o-8 terms=a-13b-3c-8d4e-10f-3i6j-11l-6m7o-10 test=d-4f-4g-3i-7j6o-8
text=a8b4c-10d-15e-12f-10g-16h3i-9j-15k-9l-19m-7 than=b6c5d-14f-4g-8h-7i-5j-16k-3l-10m-13n-7
that=b6d-6e-9f-7g-5h-4i-11k-8l8n-4o-9 the=a-4b3d-4e-7l11m6 there=a-6e-6f-6g-4i-4j5k-4l-5m-4o-5
thinkin=a-16b-10c-19d-7e-14g-3h-6i-5j-18k30l-15m-14n-6o-31 this=b-8d-4e6f-6g-9h-12j-4k5m-5n-5
thought=a-9b-7c-12d-4e-6f-6g-4i-13j-10k13l-6m-9o-11 throttl=a-13b-11c-8d16e-12g-16h-5i-15j-13k-4l-8m-10n-5o-13
through=d-5e3j3 tier=a-5c-15d-5e6f7g-8k-17l-10m-4o-17 time=a3b-12c-7d8e-7f-18i-8j-5k-4l-4m-4n-5o-11
timed=a-9b-7d-8e-13f-20g7h6i-15j-13k-6l-6m-8n-9o-7 timeout=a-10b-13c-3d-16e-14f-5h14i-19j-11k-7l-9m-17n-21o-17
to=a-5h-17l-4o-5 today=d9e-11 token=a9b-31c-29d-7e-7f-19g-6h-5i16k-6l-20m-18
tokens=a24b-45c-37d-12e-5f-27g-22i-7j-20k-4l-23m-24n-4 too=b8d10e-9f-7g-20h-18i-23j-11k-9l-15m-21n-17
tool=a-9d-14e-13f-9g-7h-9i-16j-16k-9l16m-25n-13o4 toolcon=a-10k-7l3m-5 toolres=b-4k-7l6m-5o-7
tools=a-14b9c-22d-13e-11f-10g-3i-10j-16k-8l-20m-7n-3o8 tooluse=a-13b-6c-3k-6l8m-9
top=a-12b-7c-11e3i-11j-3k-11l-10m-7o11 total=a3c5d-16f-5g-11h-4i6j-5k-5l-9m-6n-9o-16
tpm=a-8b-13c-5d16e-14f-5g-6h-5i-4j-7n-4o-5 traffic=d-10f8 trial=e6i-12j-4m-5 trigger=d4e-4f-6 true=c-8j-3l3m-3
truncat=b-11c-3d-4e-5f-3g-9h4i-7j-10k-11l-12m-8n-7o8 try=c-9e-6f7g-4h-8j-4k-9l-4m-6n-8
trying=a-10c-7e-5f3h-10i-7j-4k-4l-7m-5n-5o-10 turn=a4b-4c-6d-6e-8f-9g-18i-9k-4l7m7n-4o-13
type=a-8b-17c9d-3e-8f-9i-14j-11m-12n-7o6 typeerr=a-4b-4c-7d-7e-5f-4g3i-10m-3n-4o-9 uminfer=j-6
unable=c4d-3e-3f4g-3i-4m-5o-7 unautho=a-4b-5c-5d-7f-6g-7h-5i8j-5k-3l-4m-6n-6o-5
unavail=b-8c-13d-12e-13f13g-7h-15j-4k-13l-16m4n-16o-14 und=b-4c-3f-3g-8h9i-4 under=b-6f6g-10h-3i-5
unexpec=a-9b-6c-5d-4e-9g15h-13i-19j-14k-5m-10n-24 unhandl=g8h-10i-4n-7o-13 unique=b-8k-5l5
unknown=a-22b-16c-18d-9f-13g10h-14i-16j7k7l-5m-21n-10 unrecog=a-11b-4k6l-3m-3o6
unsuppo=a-19b-15c7d-7e-12f-15g-15h-8k7l-18m-21n-8 up=b-5d-14e8f10h-7i-12j-13k-8l-5m-10n-10o-6
upgrade=a-6c-3d-8e11i-11m-3 upload=a-11b5d-7e-5f-3o-11 uploade=a-4c6o-3 upstrea=b-15c-14d-8g11h-19j-20l-12m-19n-13
url=b-8c7d-12e-7h-12i6j-5k-9l-6n-5o-14 us=d-4 usage=a-10b-5c-12d-10e18f-4g-6h-4i-15j-4k-6l-5n-3o-9
use=b-15c-4d-3e-11f-7h-11i7j-5k-6l3m-9n-6 used=a7b-4c-5d-8e6f-4g-10h-8i4k-5l-4m-10n-8o-14
user=b-20c-13f-10g-16h-8i12j-12k-14l10m-16n-16 using=a-5b-5f-4g-6k4m-6o-11 valid=b-4d-18f-7g-15h-7j3l-4n-7
validat=a3d-11e-7f-4g-13h-4j-12k-9l-5m-8n-5 value=a-9c-6d-11e-10f-9h-10i-14j-7k9l-3m-12n3o4
valueer=a9b-12d-5e-4f-6g-9h-8i-6k-4l-3n5o-14 values=a-4b-6e-5f-4g-5h-6i-6j5k3l-5m-3n-9o-8
verifie=c-10i-3j-4k9l-4m-10o-8 verify=d-4e-11h-3i9j-5k-4n-4o-10 version=a-11b-4c-11e-6g-4i-8k-5l-4m-9o12
video=a-18b-16c19d-3e-7f-7g-7h-3i-5j-7k-5l-7m-11o-16 violate=a-7b-3c-4d-4e-4f-5g-11h-4i-5j-5k-3l-3m9n-6o-3
violati=a-7b-5c-6d-5e-6f-3g-5i-10k-4l-5m10n-4o-9 vision=a-7b8c15d-13e-7g-13i-5j-13k-10l-7m-4
visit=a-4c-4f-3g-4i-4l-4o-5 vs=b5c-5d-7h-3i-6j-11k-8l-5n-6o7 wait=a-10b-5c-6d5g-10h-4i-6k-3l-3m-4o-5
waiting=a-5b-4c-4d-5e-6f8g-9h7i-11j-5k-4m-4 warning=a10b-8c-6d-8e-7f-4g-8i-4o-14
was=b-14d-12e-9f3g8i-5j-8k-5l-20n-19 we=b-10c-10e-6g3i-4k-5l-4m-7n-6 websock=a-10b8c-6d-11f-5i-11j-4l-5n-10o-9
weekly=d-4e4 went=a-5b-4c-6d-6e-5f-5g7i-8j-3n-4o-5 were=b-9d-6e8g-5i-6j-4k-8m-6o-16 when=c-8e-5f-3k6m-4o-14
which=a-8b8c5g-4i-4j-5k-6m-5 while=b-9d-7e-3h7i-9j-5k-3l-7m-5n-8o-11 whitesp=a-7b-9c-6k-10l-7m-8o10
width=a-3b-5c7k-4l-3m-3o-5 will=d-5e4j-3 window=a7b-8c-10d-8f-8g-17h-8i-8j-8k-4l-5m-9n-9
with=a-13c-8e-6f-10h-8j-12l12m-4n-4o5 within=a-3b-3d-7e-4f-4g-11h9i-5l-3n-13o-4
without=a-9b-5c-9d-6e-5f-6h8i-6j-11l4m-10o-11 work=e-11i7j-3k4m-7n-3o-6
worker=a-7b-7c-6d-7e-4f-11g10h-4i-5j-4l-5m-8n-5o-4 workers=a-8b-6c-6d-9e-7f9g-3i-6j-10k-4l-7m-7n-3o-7
workspa=a-3f-4g-3i6j-11k-3m-8n-3o-4 would=a4c-4e-12f-5g-7i7j-4l-3m-7n-5o-9
wrong=a-5b-4d-6e-5f-5g7i-8j-4k-3m-4n-4o-5 xxx=c-4d-4f-4g-12j6k-5l-3o-5 xxxx=e-3i-4j6o-7
yet=a-11b-10c-12e11f7g-12h-4i-12j-15k-7l-10m-10o-11 you=a-6b-18c-5d8e4f-12g-10h-10i6j-5k-5l-8n-14
your=b-10c-8d-3e12f-14h-8i-4k-10l-5n-12o-5 youre=a-3d4f-4o-4 youve=b-5c-4d-5e8f-5g-4h-3i-4j-3m-4o-6 za=o3
已达到=a-13b-13c-13d-16e13f-8g-5i-5j-6k-7l-6m-10o9 输入内容过长=a13b-12c-12d-12e-10f-11g-10i-12j-13k-12l-11m-15n-3o-14
"""
