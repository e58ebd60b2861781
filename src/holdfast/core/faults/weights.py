"""How much each word speaks for or against each kind of failure: see `likeness`, which reads it.

Written by `python -m tests.core.fitting` from the refusals that tests keep; not for editing by hand. A word, then the
letters of kinds, each with its weight in tenths of a natural logarithm.
"""

WEIGHTS = """
200=a-12b-15c-18d-15e-16f-15g-7h7i-15j-26k-21l-22m8n21o-13 400=a9c9d-10e-11f-10g-24h-30i-12k3l4m11n-36o8
401=a-16b-15c-13d-12e-13f-20g-24h-15i26j-9k-14l-13m-17n-18o-18
402=a-15b-19c-16d-17e25f-20g-23h-18i-22j-17k-14l-13m-20n-23o-19
403=a-20b-25c-20d-7e9f-27g-32h-19i18j-11k-21l-19m-3n-25o-25
404=a-12b-7c-8d-15e-15f-18g-19h-13i-13j14k-5l-22m-14n-19o8 408=a-4b-7c-6d-5e-7f-13g11i-5j-7k-4l-5m-8n-4o-9
410=a-12b-13c-13d-14e-12f-15g-16h-13i-15j15k-12l-12m-15n-15o-14
413=b22c-7d-8e-22f-25g-29h-21i-27j-23k-17l-17m-24n-24o-27 422=a8d-17e-8f-11g-17h-9i-18j-10k-10l-13n-10o7
424=a5b-8c-7d-8e-5f-12g10h-5i-6j-9k-4l-8m-5n-5o-12 429=a-19b-25c-21d21e9f-6g-31h-21i-29j-23k-17l-17m-26n-27o-25
500=c-6d-20e-19f4g18h-16i-22j-22k-15l-6m-11n-22o-27 502=a-8b-18c-15d-17e-17f7g15h-11i-8j-17k-14l-8m-14o-8
503=a-18b-24c-17d-11e-23f19h-20i-25k-14l-13m-22n-25o-21 504=a-9b-12c-7d-11e-9f-14g18h-17i-7j-6k-6l-6m-8n-8o-10
524=a-14b-13c-12d-13e-14f11h-16i-15j-14k-12l-11m-15n-15o-14
529=a-14b-13c-12d-14e-15f16g-16h-14i-16j-15k-13l-11m-15n-16o-15 None=b-11c-6e-6f-4g9h9i5j-6k-5l-8n4o-7
abc=b-3c-11d-4e-4f-4h-12i-9j-15k-7l7m-5n-6o8 aborted=a-7b-6c-5d-13e-7f-10g14h-11i-13j-10k-3l-3m-10n-7o-8
about=c-4e-4i-4j4l-5o-6 above=a-4b10c-7e-4f-3g-7h-4j-6k-6l-3m-9o-6 accept=a8b-5c4d-6e-8f-6g-3i7j-15k-7l-5m-12o-13
accepte=a-7c-4e-4i-7k-5l-5o6 accepts=a10f-4j-7k-5l-4m-6o-6 access=a-8b-7c-8d-8f-9g5h-10i6j8k-13l-7m-8n-16o-12
account=a-15c-10d-5e10f-13g-19h-10j6k-11l-11m-12n-14o-8 acme=c9e-5f-7i-6k-7m-4o-14 active=d-4e12j-13n-4o-4
actual=b4d-6e-8f-4g-3k-5l-4m-7 add=a-8b-10c-5e6f-5g-4k-5m-11o-3 additio=c-6e-5g7i-8l-8m-7o-5
address=d-3e-5h-5i4j-4o-4 adjust=e-3i-4l-7o3 admin=a-6c-3e5f-3i4j-9k-5m-7o-8
after=c-8f-17h-15i-5j-9k-5l9m-7n-9o-10 again=a-6f8g-5h-9j-11k-10l-4m-9n-10 agent=e-7f-5o-6
ai=a-6b5c-7f-13h-9i-4k-6l-7m-4n8o-8 aierror=a-14b-5c-6d-12e5f-6g6h-8i-5j-4k-5l-4m4o8 algo=a5b4c-3o-10
all=a-9b-10c-4d8e-9f6g-11h-5i-9j-10k-5l-9m-7n-5o4 allocat=b-11d5e-7f-5g4h-4o-5
allowed=b8c4e-14f-17g-17h-8j-4k-4l-10m-14n-12 allows=a-3e-3j-3k-8o6 alterna=a-10b-9c-9e-4f-3i-7j-5k-7l11m-7o-11
always=e5f5g13i7k-5l-6m8n8o5 amazon=a-16b-16c-9e-5k-6l-10m-15o7 an=a-5b-11c-5d-8e-6f-19i-4j-4k-5m-9n8o9
and=a7c-7d-5f-8g-10h-8i-8o-6 answeri=o-3 anthrop=d-4f-14g5i4l-4m-4n-8o-7 any=a-7c-13d-4e-4f-5g-7h-3i-5k-4m-13n10
api=a-6b-6f-18g3h-13i9j-9l-15m-13o-6 app=e-4 applica=b-4c6e-3f-7g5i-8j-4k-4m-10n-5o-6
are=c5e-6f4g-15h-7i-9j-6m-8n-8o-8 argumen=a-4b-6d-5e-10f-6g-7h-3i-8j-10k4l-6m-21n-3o9 arn=j4
array=a-16c-6e-6f-5g-4i-5j-4k-5l6m-3n6 as=a-8b-3e-3g-9k-4l-7o6 assista=a-6b-8c-7d-5e-4g-5h-3i-4j-5k6m-6n-3
associa=a-3b3c-9 at=a-6b5d-9f4h-10i-15j-7k-6m-26n-12 attache=a-10b-8c13e-4f-4g-7i-11j-8k-6l-5m-14o-8
attempt=a-3b-8c-9e-6f-7g3h-6i-6j-7k-6l-7m5n-4 audio=a-16b-20c23d-8e-12f-5g-6i-8j-13k-17l-5m-9o-9
authent=a-5b-6c-7d-6e-10f-7g-10h-7i12j-8k-7l-5m-9n-7o-11
authori=a-7b-6c-5d-10e-11f-9g-14h-8i16j-5k-6l-5m-13n-13o-9 automat=c-3g-3o-4
availab=b-12c-14d-3f6h-7i-7j4k-16l-12m-16n-13o-7 aws=b-6d-3e-4i-3 back=a-5b-4c-4d7e-4f-10g-5i-7j-3k5l-4m-6o-5
backend=b-4c-4d-4e-4f-5g7h-4l-4m-5o-9 bad=b-11c-9e-7g-9h-14i-9l-4m-20n-12o12
badrequ=b-24c12d-9f-9g-14i-9j-16k-5l-9m4o-6 balance=a-7b-9c-8d-9e21f-20g6h-13i-22j-13k-6l-7m-17n-20o-8
base=b-8c10e-4f-3g-7i-5j-4k-6l-6m-13o-10 batch=a3b12c-11d-5e-4f-3i-4k-5l-4o-19
be=a-6b-7c-4d-9e-8g-5h-11i4k5m-5n-4o8 because=b-10d-4g-7i-7j-7l-4m9n-10o-7 bedrock=a3b-8c-4e-8i-4m-4o-4
been=b-13c-13d7f-9g-8h-9i5k-7l-7n-10o-12 before=a-8b-6d-4e-5h10i-7j-6k-5m-4n-7o-12 beginni=a-12b-14c-11f-9k-6l8m-4
being=b-8c-4d-4e-3g-6h-6i-4j-3k-6l-4m5n-5o-4 below=a7c3e-3g-5i-3o-7 beta=a-8c-4e6i-7j6o-12
between=a-11b-5c-7i-10j-3k-4l-9o10 beyond=a9c-9g-4i-4j-8l-4m-8o-7 bias=a-13b-13c-11d-14e-9i-3j-6l-3m-3o12
big=a7b7c-6d-10e-3f-4g-7h-9k-3l-4n-9o-10 billing=a-10b-4c-5d-9e12f-11h-4i-13j-5k-3o-4
block=a-4b-7c-6d-4e-4g-3h9i-7j-4k5m-8n-13o-7 blocked=a-8b-14c-12d-15e-15f-11g-11h-14i6j-12k-10l-8m12n-15o-14
blocks=a-6b-14c-6d-4e-3f4g-7h-3i-3j-4l8m-12n-5 body=a-18b13c-7d-12e-15f-15g-11h10i-5j-9k-7m-25n-8
both=e-3h-3l-3m-4 budget=a-10b-12c-11d-17e13f-11g-12h-6i-10j-11k18l-11m-11n-8o-24 buffer=a-3b8e-3f-13g-5m-3o-5
busy=a-7b-8c-10d-7e-6f10g-12h-4i-5j-5k-4l-6m-7n-5o-6 but=a6d-9e-4f-8g-7h-5i-10l-15n-8
by=b-17e-8h-7i-6j-14k-8m9n-4o-4 byte=a-7b7g-4o-6 bytes=a-15b11c4d-9e-7f-6g-7h-4i-7j-14k-8l-7m-12n-4o-17
cache=a-6b-15d-7e-5g-7i-3j-3k-6l-5m-5o9 calcula=c-4 call=a-4b-24c-15f-17h-9i-13j-5k-4l17m-9n-11o-9
calling=b-7c4e-4f-12g-4i-5j-14k-14l-12 calls=a-8c-10d8f-10g-12h-9i-6j-8l10m-5o-13 can=b-9c-5f-6h-4i-8k-7l-8n-4o8
candida=a-4b-5c-5d-4e-7f-7g-13h-8i-10j-5l-3n12o-12 cannot=b-9c6d-6e-6f6g-4h-5l-12m-9n-9 cap=b-4c4d-10e3g-4i-4o-3
capacit=a-8c-13d-16e-6f20g-14h-3i-10j-11k-4l-5m-4n-5o-9 categor=a10o-11 cause=g-5h6 certain=c3o-3
certifi=a-5b-4c-4d-6e-6f-6g9h-8j-6k-3m-8n-10o-4 cf=f7g-8 charact=a-29b15c-6d-8e-9f-7g-8h-3i-6j-7k-13l-7m-11n-5o7
chars=a-13b7c-9d-8h-5l-3n-10o6 chat=b3c-16e-6f-6h4i-12k-12l-4m-13n-13o7 chatgpt=g-4h4i-3j7k-4l-7o-6
check=a-9b-8c-12f-7h-5j6k-8l-7n-4 choice=b-7c-13i-3j-9k3l-13m-3o6 choices=b-6c-4e-6f-7g-11h-12i-7j-5l-6m-6n10o-6
chunk=b-3e-5f-4g-11h11i-7j-4k-6n-11o-11 claude=a-4b-6c-11d-8f-6g-4i8j8k-10l-5m-6n-3o-3 clear=g-3
client=b-4f-7g7h-3i-8j-4l-4m-9o-9 closed=a-8b-10c-6d-9e-5f-17h10i-16k-5l-7m-10n-15o-13 cloudfl=a-4c-3d-8f-6g5o-4
code=b-6c-4e-19f-11g7h-9i4k-10l-8m-8n-14 codex=c-6i-5k-5l-7m-4o4 coding=e-6f-4i5o-5
column=a-4b-6d-4e-3f-4g7h-3i-3j-4k-4n-5o-5 com=b-4c-5e-4f-5g8h-7i-9j-5k-4l-3m-4n-9o-6 come=d-9i-3o-4
command=f-4g3j3 compact=a5c-4g-5i-3n-4o-6 compati=a-4c-7e-5f-5i-6k-8l-11m-8o5
complet=a-8b-12c-18d-11e-7f-14g-8h6j-3k-9l-7m-4n8o6 compres=a4o-11 concurr=d14e-17f-5g-3i-3
config=a-3c-6d-3e-6g-6i-15k8l-7o-3 configu=a11c-7d-5e-5i4j-4m-3o-15
connect=a-8c-13d-14e-11f-9g15i-16j-14k-6l-7m-9n-6o-9 conside=b-3c-5e-4k-7m6o-10 console=a-4d-5e-4f6h-3i-9m-4o-7
constra=a-4 contact=a-5d3f-6i-7k-4 contain=b-14c5d-8e-7f-7g-11h-16i-9k-4m8n11o-7
content=a-7b-7c-7d-5e-10f-17g-7i-23j-19k7l-12m17 context=a22b-36c-24d-20e-5f-22h-18i-22j-19k-19l-15m-22n-20o-3
continu=c-3d-5e9f-4g-3i-12o-4 control=a4b4c-4d-5g-4i-5k-5l-4m-4
convers=a15b-4c-3d-5e-11f-10g-9h-5i-16j-18k-8m-17n-4o-14 copilot=a-4d6e-7g-3o-3 correct=k5o-5
corresp=b-3c-3i-3j5l4o-12 corrupt=a-9b-7c8d-4e-6f-5g-6i-7j-8k4l-8m-11n-3o-10 cost=a-7b-6c-5d-4e9o-4
could=a5b-13c3d-5e-5f-10g5h-5j3k7l-12m-8n-7o-5 count=a7b-12d5e-8f-8g-7h-6i-6j-13k-8l-5m-15n-4
crashed=a-8b-4c-6d-4f-8g10h-4i-4j-11k-3l-8m-8n-5o-5 create=a-14b-6g-15h16i-6l-4m-18n-21
credent=a-7b-10c-10d4e-8f-10g-15h-7i19j-16k-7l-6m-7n-9o-6 credit=a-6b-7c-7e10f-4g-4i-9j-9k-6l-5m-6n-5o-10
credits=a-8b-9c-11d-13e19f-9g-10h-6i-15j-17k-9l-8m-6n-8o-15 ctx=a8b-4c-8e-5i-6j-7k-11l-7m-9 cuda=e-3f-4g6h-4j-3
current=a-12c-17d3e8h-5i-6k-13l-12m-9n-8o-4 custom=a-4b-8c-4j5k-7l-4 daily=a-13b-5c-6e9f-7g-4i-6n-3o-7
data=a-7b-8c13d-12e-8f-6g-13h5i-9k-4l-6n-7o-8 day=a-11d9e-8
deadlin=a-14b-10c-6d-12e-12f-11g15h-7i-4j-5k-5l-5m-8n-4o-9 decode=b-8c4d-9e-6f9g-13h-6i-9j-8k-5l-4m-12n-6
deepsee=c-10g-5i-4j3k-12l-8o6 default=a-5b-5c-7d-9e-6f-17g-8h-6j11k-5l-5m-5n-5 defined=a-7b-3c-3g-4i-4k-6l3
degrade=a-6f8j-6l-5o-9 demand=a-6c-3i-8o-4 denied=a-5b-5c-5f-8g-13h-10i10k-4l-4m-16n-14o-9
deplete=a-9b-4c-5d-14f12g-13h-7i-14j-5k-6m-5n-8o-7 deploym=b-11c-9d5e-5f-9g-4h-8i-13j11k-8l-8m-7n-8o-15
depreca=a-11c-5d-3e-6i-9j9k-4l-3m-6o-4 desc=a-7c-4f-6g-7h-5i-10j7k-4l-6m-4n-4
details=a-7b-3c6d-3e4f-4i-4j-4k-5l-7m-4 detecte=a-13c-8d-9e-13f-6h-6i-16j-9k-9l-8m19n-6o-18
develop=c-7d-4e-5f-4g3i-10j-7k-8l-14m-8o13 did=a-4c-6e-4g-5i-5j-8k-6m-6n7
dimensi=a-4b-13c5d-5e-6f-4g-6h-4i-4j-4k-5l-5m-4n-3o5 disable=a-11b-4c8d-7e-11f-5g-11i11j-9l-3m-13o-8
disconn=a-6b-11c-5d3e-3f-11g8i-6l-4m-5n-6o-11 do=b-4c-4f-3j6k-5m-4o-11
documen=a-12c10d-10e-8f-6g-5i-18j-11k-16l-10m-13 does=a-4b-12d-6f-7h-5i-12m-10n-10
doesnt=a-10c-13f-4j-9k-9l-12m-4o11 dont=c-4e-5i6k-4o-6
down=a-12b-13c-8d15e-15f-21g4h-13i-16j-7k-12l-11m-16n-15o-16 downloa=a-5b-3c9g-4j-4k-4l-4m-5o-5
due=a-4b-6c-3e6f-7i-10j-7k-3m5n-3o-5 duratio=a-13b-12c14d-7e-7f-7g-3i-4m-5o-12
during=b-7d-10e-5f12g-9h-6i-9j-5k-4l-4m-11n-5o-10 each=b-8c4e5i-11m-6o-8 earlier=a3k-3
econnre=a-5b-5c-11d-6e-7f-11g12h-13i-8j-4k-3l-3m-10n-9o-6 effort=a-4b-6c-15d-3e-5f-5g-5i-7j-14k18l-11m-10n-3o-20
either=b-3c-4g-4i-5k-9l-12m-4n4o6 element=a-15b-11c-13d-6j-8k-8l-8m-12n-6o14 embeddi=a-7b-7c-12k-3l-4o10
empty=a-14b-12d-11f-15g-19h-19i-17j-24k-17m-21n19o9 enable=c-11i-3j-8l-3 enabled=a-5b-3d-3f-4i-11k10l-5m-4o-9
encoded=a6c5g-5i-4j-5k-3m-4o-11 encount=c-3e-3f-11g6j-3l-3m-3o-4
encrypt=a-13b-13c11d-3e-8f-9g-7h-5i-7j-10k12l-8m-15o-20 end=a-9b-15c-14d-12f-9g10h-13i-14j3k-10l11m-12n-6
ended=a-4b-4c-4d-10e4f-12g-7h10i-14j-6k-8l-4m-7n-3o-16 endpoin=a-4b-13d-4e-5f3g-8h-8j10k-6l-9m-11n-8o-11
engine=b-13c-11d5e-8f6h-5i-8j-13k-8l-3m-12n-6 enough=b-9c-13d-4e13f-3g-14h-3i-18j-14k-11l-13m-16n-6
ensembl=a-6b7c-3o-7 ensure=a-3c-6e-5g-5i-3l6m-3o-12 entity=a-12b11c-12d-14e-5f-6g-6h-3i-11j11k-8l-5n-4o-20
eof=a-3b-4c-5e-6f-13g7h-8i-6j-5l-4m-4n-6o-6 equal=a-8e-4i-7k-4m-4o7 err=b-5d-3e-4i-8j-7k-3n-5o-6 error=g6m-5n-16
errors=b5d-9e-6i-4j-5m-5n-4o-5 estimat=a7c-3e-4o-5 event=a-4c-4d-4e-3f-6g-10h12i-5j-4n-8o-6
example=a-10b-6c-10d-13e-12f-6g8h-12i-16j-11k-10l-4m-10n-11o6 exceed=a-5b-12e5f7g-20h-13i-12j-9l-16m-15n-11
exceede=b7c-3d7f3g-12h-9i-30j-22k-7l-16m-20n-24o-10 exceedi=b-4c4g-3i-7o-3
exceeds=b9c4d-22e-14f-8g-22h-15i-13j-14k-5l-11m-23n-11o7 excepti=a-5c-4d5e-4f-8g3h-11j-10m-8n-7o-8
executi=c-4h5k-3n-4o-5 exhaust=a-9c-13d7e9f-5g-20h-14i-24j-18k-11l-8m-12n-15o-10
exist=c-14d-3e-4f-4g-13i-5j13k-6l-5m-3n-9o-10 existin=g6h-4 exit=a-7c-6g8i-4j-10k-3l-8m-8o-4
expecte=a-8c-5e-8f-8g4h-6i-6j-5m-11n-7o5 experie=c-4d-9e-5f8g-5k-3l-3m-3
expired=a-9b-9c-8d-12e6f-13g-11h-14i10j-13k-8l-6m-15n-15o-10 extra=a-16b-8c-11e11g-3i-8j-8l-8m-9
failed=e-16g7h-18j-7k-8l-15n-9 failure=a-3b-5c-4d-3e4f-11g7h-7i-4j-9k-8l-4m-5n-9o-3 false=b-3c-4i-6j-6k4l-6
fetch=a-13b-7c5d-7e-3f-12g15h-9i-12j-5k-7l-9m-14n-3o-14 fetchin=g-3o-3 fewer=o-4
field=a-16b-15c-14d-7e-13f-8g-15h-7i-14j-14n-8o13 fields=b-12c-9d-12e-4f-5g-7j-4o7
file=a-13b-21c24d-13e-7f-7h-5i-6j-8k-12l-12m-9n-9o-4 files=a-9b-9c12d-3e-3j-3m-4o-8
filter=a-6b-8c-9d-3e-4g-9h-9i-5k-5l-4m11n-13 filtere=a-4b-5c-6e-5f-4g-6h-4i-5j-5k-11l-11m9o-12
filteri=a-4b5c-3g-6h-3i-4j-7k-3m6o-11 filters=m3 final=g-4h5l-7m-5n-10o4 find=c-3e-3g-5j5k-4m3o-4
finish=a-3b-10c-5d-8e-4f-7h6i-13j-4k-8l-3m-11o-11 first=a-4b-4c-5d-9e-9f-6g-11h7l5m-8n-3o-10 fit=a8f-10g-4o-7
flagged=a-10b-9c-10d-4e-9f-4g-6i-9j-7k-4m12o-13 flash=a-4b-4f-3i-5j5k-7o-6 follow=k-3l6o-8 followe=l4o-6
followi=a-3c-3d-4e-4f-4g-4i-4j-5l5m-6o-10 foo=a-17b-12c-15e-8f-10g-14i-7j17k-13l-6m-10n-3o-3 for=b-8c-7g-7l3n-16
forbidd=a-5b-6c-7d-7e-6f-6g-6h-5i10j-7k-8l-5m-12n-6o4 format=a-6b-11c3e-3f-6g-9i-9j-8k-3l5m-3 formats=c5o-6
found=a-4b-7c-7d-13e-15f-4g-23h-15j10l9m-11n-4o-6 free=a-4b-5c-4e9g-9h-4i-4j-10k-3l-4m-3n-3o-9
frequen=b-3d7e-7f-3g-9h-4i-5k-4n-5o-8 from=a-15c4f4g-4i4j-10k-4l7m-18n4o-6
full=a12b-4c-4d-10e-11f5g-10h-5i-6j-6k-4l-3m-5n-5o-12 functio=b-8c-22d-8e-9f6h-7i-15j-6k-4l6m-13n-8o7
gateway=a-7c-7d-11e-4f-10g12h-13i6j-11k-6l-6m-16n-13o-13 gemini=a-4b-6e-4h-4i-4j6l-5o-13
generat=b-9c-9e-3g-9h-15k-14l-8m-13n9o5 get=c-3f3i-4j-3 given=a7b-6e-4f-3g-4i-6j-4k-5l-3n-3o-5 glm=d5e-4
go=d-7f-4g8h-10i-6n-7o-5 good=e10i-11j-5o-4 google=c-4e-4i-5k-4o-7 got=a9b3c-5d-7f-6h-6i-13j-6k-16l-8m-10n-9o-7
gpt=a-6b4c-6d8e-12f-8g-5h-4i-4l-6n-3o-4 grammar=a-6b-5c-4d-4f-4h-3l-3m-4o6 greater=a-5b-14c-9f-6g-4k3o7
grok=c-6j-5k5o-4 group=f-4j8k-7o-9 guardra=a-10b-11c-11d-7e-8f-10g-8h-3i-10j-4k-11l-10m12n-3o-13
had=a5g7j-9n-4o-15 handle=a12c-3e-5g-4i-4j-4k-3m-3o-16 hang=a-6b-3c-5d-4e-8f-10g10h-8i-5j-4m-4n-6o-6
hard=a-10c-4d-10e8 has=a3e3f-14h-11i5k-15l-3m-12n-12o-15 have=a-4b-6d6e4f-5g-10j6k-13l-5m-7n-6
header=a-14b-16c-13d-15e-8f-8g6h-8i5j-10k-8l-4m-6n-5o9 headers=a-4c-4e-4f-7g-9h10i-6n-4
heavy=a-4b-4c-4d-4e5f8g-9i-7j-5o-4 height=c5o-4 here=b-7c-5d-8f-4g-8h-5i-10j9k-3n-3o-15
high=a-14b-7c-10e-11f6g-11h-5i-8j-9k4l-6m-6n-6 higher=a-4o-3 history=a10c-5l-6
hit=a-4b-6c-6e5f-5g-5h-4i-5l-3n-6o-7 host=a-4d-4f8g-6h-4 however=a4o-15
http=b-5c-14d6f-16g10h-13i-10l-10m-16n-11o3 id=a-6b4c-17d-3e-6g3h-9j-3k-6m-15n-9
identif=a-6b-4c-4f-8g-5i-7j9k-6m-11o-10 idle=a-3c-3d-4e-3f-7g-15h12i-4n-6o-4 ids=a-3b-6c-5i-4k-6l13m-9o-12
if=c-8d-3g-6l-4m-4o7 illegal=a-7b-4c5d-4o-5 image=a-22b-33c35d-8e-13f-10g-9h-11i-18j-21k-19l-15n-11o-22
images=a-21b-33c29d-11e-15f-11g-7h-4j-20k-18l-11m-7n-5o-13 immedia=e4i-7 in=b-15d-5l-6o-4
include=a-6d-5e5f-4g-5i5j-15k-4l-9m-6o-4 incompl=a-7b-5d-10e-5f-8g9h-5i-12j-5k-10l-3m6n-4o-15
incorre=a-20b-18c-19d-12e-8f-11g-9h-4j5k-16l12m-19n-4o-6 increas=b-9d6e-4f-4g-4j-3l-3m-4o-13 index=a-4b-8k6l-5
indices=a4o-6 inferen=b4c-4e-4f-14g8h-3i-6k-4l-4m-6n-5o-11 informa=a-9b-6c-9e-4f-5g8i-10j-12k-6l7m3n-3o-7
initial=a-5b-5c-4f-3i-3k-4m-5o6 input=a21d-7e-20f-16g-13h-15i-18j-25k-13l-11m7n-13o-10
inputs=a16b-5d-4e-11f-5g-10h-3i-11j-8l-7m-10n-5o-5 instead=a-16c-5e-3g-3i-13j-10l-7o10 instruc=j-9k-6o5
insuffi=a-13b-14c-9d-15e16f-7g-23h-14i5j-9k-7m-18n-20o-13 integer=a-12b-13c-4i-5l-7m-4n-3o13
interna=b-4c-11d-13e-13f-3g6h-20i-4j-13k-4l-7m-19n-18 interru=a-6b-6c-6d-9e-6f-13g8h5i-12j-6k-3l-3m-14n-14o-16
into=b-4e-6f-3i4o-3 invalid=b-6d-20f-12g-11i6j5k3n-26o6 invocat=j4 invokem=a8b-3d-4e-3g-5o-12
ip=a-4b-9c-5d7e-11f-4j-4o-3 is=b3d-7f12g-4h-19i-3l-11m-9n-11 isnt=a-11c9i-6k-10l-5m-9o-12 issue=c3i-5j-4m-3o-3
issued=b4c-4 it=a-4c-11d-13e-5f-8h-4k-14m5n-8o-4 item=a-3b-10i-5j-5k8l4m-3o-12
items=a-16b9c-9e-5f-5g-3i-8j-8k4m-4o-5 its=b-10c-12d-4e6f-5g-4i-13l-5m-8o-12 jinja=a-4b-5c-3e-3g-3
json=a-18b-8c-14d-7e-9f-9g14h-10i-16k-13l-16m-15n-12o14 kb=a-7b7c-4o-3
keep=a-11b-14c-11d-14e3f-11g11i-9j-14k-8l-10m-13 key=a-19b-20c-16d-7f-9g-14h-12i21j-10k-16l-11m-14n-15
kimi=a-4e-4f-5g5h-6i-4j5l-6n-7o-4 languag=a-4b-5c-13d3e-4f-11g-11h-3i-14j-4k-13l-11n-9o11
large=b7c4d-6e-10f-16g-18h-5i-12j-6k-9l-8m-13n-6 larger=a-4b10c-5d-8e-6f-5g-4h-5i-7j-6k-8l-4m-10n-4
last=b-5c-5e-4i-6k-9l12m-4o-15 later=a-9b-12c-8d11e-8g-4h-5i-11j-6k-4l-6m-7n-5o-8 learn=c-3i-5j5l-5o-4
least=b-13c-5e-4i-4l-10m-3n-4 len=a18b-9c-4g-4k-5o-18 length=a17b6c-12d-15e-16f-19g-5h-8i-12j-13k-18l-18m-22n-7o-9
less=b-3c-4d-5e-10g-4h-5i-12j-5l-8m-6n-6 level=c-3i-4j-8k4l-5 library=c-4j-3o6 life=a-7d-4e-6f-3g-4j7o-3
like=c-4d-9e-4f-4g-7i7j-4m-6n-4o-4 limit=a7d7e7f-22g-31h-30i-31j-26k-9l-19m-36n-36o-4
limited=a-6b-8c-9d9e-7f-9g-4i-5j-6k-7n-4o6 limits=a-9b-8c-11e6f-12g3i-6j-6k-4l-3m-3n-3
line=a-5b-7c-4d-5e-8f-6g7h-3i-13j6k-5m-6n-5 list=a-15c-7d-7e-4g-4h-3i-7k-10l-6m-14n-5o8 lite=e-3
litellm=b-3c-6d-8e7f-6g4h-11i-4j-7 live=a-5i-4j4o5 llama=b-4i-4k-4m-4n-5o-10 llm=a3b-12d-11f-13k-5l-7m-6
load=a-13c4d-6e-6f10h-12i-9j-8k-6l-5m-9n-8o-6 loaded=a-7b-7c-11d-4e-7f7h-11i-7j5k-9l-5m-6n-7o-13
loading=f9g-9j-14k-3 local=a-8d-3f-5g-5i-3o8 locatio=c-7d8e-13i6k-4l-5o-11
login=a-6b-3c-7d-8e-5f-6g-10h-8i10j-7k-9l-4m-11n-9o-12 logit=a-13b-13c-11d-14e-9i-3j-6l-3m-3o12
long=a7b5c-4d-10f-14g-11h-8i-9j-13k-11l-15m-16n-15o-4 longer=b-14c5d-6e-8f-12g-4i-11j4k-10l-6m-11n-5
low=a-6b-6c-6d-3e5f-4i-4j-7k8l-3m-3o-11 lower=a-8b-9c-6d9e-11f-11g-11h-9i-9j-6k-3l-3m-5n-7o5
make=a-4d-4e5g-3j-10m-4 malform=a-9c-14d-12e-6f-14g8h-13i-11j-9k-7l-11m-17n-11o11
many=b8c3d7g-9h-14i-18j-12k-17l-9m-13n-17o-10 mapped=a10o-11 match=a-7b-11d-6e-4f-6g4h-6j-7k-6m-4n-7
matchin=e-3i-4l5o-6 max=a-7b14c7d-10e-5f-15g-19h-18i-17j-17k-6l-15m-24n-23o10
maximum=a4b11c4d-14e-17f-10g-18h-21i-28j-22k-17l-16m-28n-22o4 may=a-11d-5e-7f-13g-8l-8m8o-15
mb=a-17b3c14d-13e-9f-12g-6h-6i-6j-7k-6l-7m-10n-5o-19 media=a-4c4o-3 medium=a-3c-3j-6k8o-9 member=a-4
memory=a-6b-4e-4f-6g8h-4i-3m-3 message=a-6b12c-13d-4e-24f-12g-16h3i-25j-28k-5l7m-6 meta=f3g-4j-7o-3
method=a-8b-15c-14d-8f-7g-12h-4i-17j-14k-12l-10m-7n-10o12 mib=a-10b9c-8d-4f-4o-10 mime=c10g-3k-6l-3m-4o-11
min=d4e-4 minimal=j-5k5o-4 minimax=a-3e-10f8i-6j4k-6o-13 minimum=a-20b-6c5l-7m-3o16
minute=a-14b-7c-7d15e-19f-4g-4h-3i-5j-3k-6l-6m-4n-3o7 minutes=a-11b-10c10f-8i-5k-8l-4m-8o-11
missing=a-18b-7c-10d-10e-10f-10h-5i11j-14l5m-17n-18o8 mode=a-9b-6c-20f5h-4k-3l-13n-8
model=b-24c-3d-9e-7g-7h-16i-15j23k-4l-11n7 models=b-19c-4e-10f-6g6h-5i-11j7k-13l-12m-7n-7 moderat=a-6e-7i-6j-4m6
module=a-6b5j-6l-4 moment=a-5b-9c-7d4e-4f-4g-5i5 month=a-7d-10e10
monthly=a-8b-6c-4d-7e11f-5g-8h-5i-9j-4k-5l-3m-4n-8o-4 moonsho=e-5f-4g-6h-5i-9j9l-4n-6
more=a9b6c-14f-7h-4i-14j-3k-3l-10n-5o-8 most=a-4b10d-5e-8f-15g-7h-4i-10j-10k-16l-21m-12n-5o-4 mp=c6l-3o-8
ms=a-4b-8c5d6e-8f-4g-3h5i-4n-5o-5 msg=b7c-9d-4g-5i-5l-7m-4o-5 multimo=a-14b-4c17e-6f-8g-3i-6j-16k-12l-7m-13o-14
multipl=c3o-4 must=a-4c-5d-12e-15f-12g-16h-10j-20l12m-23o5 name=a-12b-25c-13d-7e-4f-11g11h-7i-15j4k-7l-6m-10n-9o14
names=b-5j4k-6l-10o6 need=g-5o-5 needs=i-7l3o-5 net=e-4g8h-11i-4j-6n-4o-5
network=a-9b-9c-9d-10e-10f-12g12h-8j-11k-7m-11n-12o-12 new=b-9c5d-10e-9f-12g-12h-8i-5j-4k-6l-8m9n-13
newer=a-8c7i-3j-13k-5m-10o4 no=a-16c-11d-13h5k-18m-20n12o-6 non=a-7b7c-6d-4e-5g-5i-3l-8m-8n-4o4
none=b-13c-9f-8g-4h-3i-6j5l-11m-7n-3 not=a-22b-5d-21f-10h-16i8j6l4m-10n-8o4 now=b-3c-8g-6k-4l-3m-4o6
null=a-3c-12d-3k-10l-3m-4n4o6 num=a10b-4c-9e-5i-4j-6k-10l-8m-9o-3 number=b7c4d3e-13f-7g-8h-5i-16j-8k-11l5m-9n-7o-7
nvidia=b-6f8j-6k-5l-5o-10 oauth=a-14b-3c-4d-7e-8f-4g-9h-12i15j-14k-5l-4m-5n-7o-10 object=b-15c-5d-3f-3k-10l-7o10
occurre=c-5e-6f-14g10h-11i-7k-4l-8n-6o-6 of=b10d6e-11g-7h-16i-6j-5k-5l-11n-11 ollama=a-7b-5c4d-3i-4o5
on=a-9e8g-11h-7k4l-6n-6o-14 one=b-3d-10e-4g-6h-4i-6j-6l-16m-9n-3o9 only=a4b-16c5d-7e-8g-9h-3i7j-22k-6l-16m-11n-5o5
open=a-8b-8c-4f4g-10m-4n-6o-10 openai=a-7c-10d-5f-7g9h-5k-6l-7m5o-6 openaie=g5o-8
openrou=a4d-7e-4f-6g5i-8j5k-4o-11 operati=b-3c-14d7e-6f-19g8i-16j-6k-8l-9m-9n-14o-9 opus=e4o-6
or=a-7b-9c-3d-9f-10j5l-5n4 org=a-8c-4d5e-5i5j-9m-6o-6 organiz=a-8c-6e-4f-3g-3i10j-7k-5m-4o-4
origina=a-8c-8i-4k-4l-10m-13o10 other=b-3e-5k-3l-3 our=a-8b7c-6e-8g-4h-4i-4k-4l-5m7n-3o-12
out=a-6b-13c-10d-17e6f4g4h5i-9k-12l-10m-20n-11o-7 output=a-19b-21c-19d-7e-11f-15g-14h3i-13j-18k5l11m8n11o4
over=b4c-7d6e6f5g-18h-16i-18j-10k-9l-10m-10n-11o-18 overdue=a-3b-4d-10e12f-8i-11o-3
overflo=a10b-10c-8d10e-14f-14g-17h-10i-11j-8k-6l-8m-9n-8o-18
overloa=a-8b-12c-9d-18e-11f21g-18h-14i-12j-15k-9l-9m-10n-12o-11 page=a-9b-9c5e-11f-10g-9h4i-12j9k-8l-3o-15
pages=a-13b-19c18d-4e-6f-3g-4i-7j-10k-3l-6m-3o-15 paid=a-3b-4d-10e8f-8 paralle=a-4b-6d13e-14f-3i-7
param=d-7e-12f-11g-16h-4i-21k-8l-23m-19n-5o4 paramet=b3d-7e-11f-7g-17h-4i-18j-24m-13n-6
params=a5b-9d-4f-5g-4h-6i-5j-9k-5l7m-11n-11o4 parse=a-10c-6d-11f-5g-14i-6j-11k-4l-5m-8o9 part=a-3b7c-9d-4o-4
parts=i-4n-3 pass=c-5e-7i9j-5l-4m-3o-10 passed=d4e-3f-6h-10i-3o-10 passwor=a-4b-4c7f-4j-4k-4l-3m-4o-4
pattern=a-5b-7c-3d-5e-6f-5g-13h-4i-9j-4k-3l-9n-5o11 payload=a-5b21c-15d-4e-9f-11g-8h-5i-11k-11l-14m-17n-5o-4
payment=a-4b-4c-4d-5e9f-5g-4h-4i-13j-3k-4l-4m-6n-4o-5 pdf=a-15b-13c20d-9e-9f-9g-6i-9j-10k-17l-7m-16n-3o-16
per=b-10c10d12e-19f-12g-11h-10i-7j-11k-9l-10m-16n-11o-6 perform=a-4b-3e5j-7m-4o-4 period=a-4d6i-9
permiss=a-3b-3c-4d-5e-14f-5g-4i14j-13k-4l-3n-4o-3 permitt=a-18b-9c-11e-9g-4i-10j-8k-4l-8m10o4
pixels=a-12b-13c11d-9e-12m-4o-6 plan=a-11b-13c-12d-10e16f-11g-15h-10i-22k-11l-4m-11n-17o-14
please=a-6d4f4g-10h-15i10j-4k-10l-4m-11n-19 plus=a8c-3e-3i-4o-9 png=c8k-5o-11
policy=a-5b-8c-10d-8e-9f-7h-5i-9k-9l-7m12n-8o-9 portkey=b-4c-5d-7e5f-5g-8i-11j-5k-8m-3o7 positio=a5b-8d-4e-3i-4l-7
positiv=a-13l-4o10 post=a-9b7c-11d5e-4f-5g-9i-9j8k-6l-5 pre=b-9g-4o-4 predict=b-7d-9e-3f-6i-5j-4k-3m-8
prefix=a10b-9c-5g-4l5o-6 prematu=b-4f-5g8h-11i-5l-4o-4 previou=b-3d-5e-10g-4i-11j-5l11
pro=a-6c-6f-10g-4i5j4k-8l-3m-6n-3o-11 process=a4b-11c4e-7h-7i-11j-13k-6l-7m4n-7o-13
produce=b-3c-4d-4e-4f-6g-7h-7i-6j-7k-5l-3n9o-7 profile=d-3e-3g-4h-4i5l-3n-3 project=i-10j3
prompt=a21b-19c-12d-12e-13f-11g-17h-7i-23j-23k-18l-12m6n-11o-5 propert=a-13b-12c-11d-3e-5f-3g-5i-4j-3l-4m-5o12
protect=a-4b-4c7f-4j-4k-4l-3m-4o-4 protoco=b-8c-9d-8f-14g9h-10i-5j-4k-4m-9 provide=a-7b8e-13h-8i8j-6k-10m-6
proxy=b-4c-7d-5e-11f-6i5j-6k-7l-4m-8n-6o-10 purchas=a-5b-9c-10e11f-4g-8i-11j-12k-7l-10m-10o-8 px=a-5c5d-4o-4
query=a7o-4 queue=a-10b-8c-10d-14e-14f14g-8h-9i-4j-5k-6m-3n-6o-10 quickly=a-4b-3c-3d4e-3l-3o-3
quota=a-18b-11c-10d-5e19f-15g-11h-10i-18j-9k-9l-7m-9n-10o-16 quotas=d3 qwen=b-10c-9e-5i-6j5k-3 ran=b-4d-9e8f-6
range=c-8d-11e-8f-9g-12h-6i-6j-7k-8l-6m-7o7 rate=a-17b-17c-13d20e-10f-11g-18h-15i-9j-6k-5l-5m-12n-8o-13
ratelim=a-5b-6c-4f-5g-4 reached=b-12c-14e13f4g-17h-9i-23k-7l-8m-12n-10o-16
read=a-15b-6c8d-13e-7h9i-16j-14k-7l-7m-6n-15o-8 ready=a-5b-6c-5e-6f12g-14i-5j-10k-4l-5o-7
reason=a-10c-7d-11e-10f-11g4h4i-15j-7k4l-6m5o-15 reasoni=a-11b-11c-20d-6e-6f-6g-9h-5i-14j-10k28l-14m-14o-27
receive=b3c-14e4f-4g-4h8i-11j-10k-14l-14m-17o-5 redacte=b-3k6l-5n-3o-5 reduce=d3e-8o-8 refer=a-3d4i-4o5
reforma=a-7b4c-5d-5e-3f-3i-6l-6m-6o5 refresh=a-9d-4e-7g-9h-7i10j-4l-3m-3n-8o-5
refused=a-11b-5c-5d-8e-10f-12g6h-14i-12j-13k-8l-5m9n-17o-13 region=c-8e-15f-8g-11i4j8k-6l-3o-6 registr=c-4j-4k-4o6
rejecte=a-5b-6c6f-20g-10h-4i8j-10k-11l-13n-8o-18 remaini=a-12b-3e8i-10j-7o8 remove=a-5b-12c-3l5 renew=c-4i5o-5
request=a3b7c-5d10h-23i-6j-6k-4l4m6n-23 require=a-17b-19c-4d-12e8f-14g-19h-16i7j-6l-8m-7n-17o7
reset=a8b-7c-10d-12f-7g6h-13i-4n-7o-15 resets=a-7b-4c-4d-5e8o-4 resolut=a-4b-5d-4f-8g7h-4i-8j-8k-10l-3m-3n-3
resolve=c-5e-3g5h-3i-5j4k-4n-4o-7 resourc=a-7c-5d11e-8f-4g-4h-9j4k-8l-6m-9n-11o-12
respond=a-7b-5c-10d-8e-6f-13g-5i-13j-16k-8m12n-17o-11 respons=a-8b-11c-22e-5f-7h10i-23j-21k-11l11m-5n-3o6
restric=a-4d-3e-6i8k-3m-4o-5 result=a-3b-5d-3e-3f-3g-9i-5j-4k-4l11o-12 results=a-9b-4g-4j-4k-4l5m3
retry=a-8b-7c-3d9e-4f4h-3i-15j-7k-10l-12n-9o-14 retryin=a5 returne=a-8b8c-8g-8h-13i-3j-4l-8m-5n12 review=d6e-7m-3
right=a-4b-4e-4g-4l3o-3 role=a-16b-20c-19d-9e-17f-8g-12h-6j-20k-7l13m-18n-6o6
roles=a-9b-9c-9e-4f-3g-3i-8j-5k-7l12m-7o-11 route=b-11c-6d-12e-6f-6g-10h-9i-15j14k-6l-7m-5n-11o-16
row=b-12c-9i-9j-4k-9l9o-13 rpc=a-7c-4f-6g-7h-5i-10j7k-4l-6m-4n-4 rpm=a-4b-4c-4d11e-15f-8n-4o-4
rs=c-3i-4j-5k8l-6o-10 run=a7c-6d-8e4g-10j-6m-3 runner=a-7b-3c-4e-3f-8g8j-5k-3m-4n-4o-3
running=a-3b-5c-5e4f-6i-9j3k-6m-4o-11 runtime=a7b-8c-5g-4 safe=a5b-3c-9i-3l-3m9o-9
safety=a-10c-9d-7e-6f-7g-10h-8i-6j-5k-7l-6m11n-6o-8 sambano=o-3 same=a-3b-7d-4g-5l8n-4o-8 satisfy=a-4
schema=a-16b-11c-12d-7e-7f-7g-5i-4j-9k-7l-7m-11o16 search=a-9b-5c-10j-4k-8m-9o11
seconds=a-7b-12c6d12e-21f-12h9i-9j-10k-5l-5m-7n-15o-9 see=a-15b-5c5d-4e-4f-4i-5j-5k-5l-6m-8n-3o8
selecte=a-6b-5c-10e-10g-6i-8j-12k-7l-9m-12n-12o12 send=b6d-4g-4o-5 sending=a-4b-4e-6f-5g5h-5i-5m-3n-4o-5
sensiti=a-9b-6c-6d-6e-5f-5g-7h-9i-6j-4k-4l-4m14n-16o-7 sent=a10b-13d8e-7f-4g4h-8i-6j-7l-5m-7n4o-19
seq=a17b-9c-4g-4k-5o-15 sequenc=a3b-21c-6d-7e-5f-5g-9i-5j-5k-4m-4o9
server=a-3c-9e-18f3g13h-11i-6j-5k-14l-6m-6n-16o-11 service=a-15b-9c-16d-9f13g3i-11j-10k-6l-5n-10o-15 serving=l5o-5
session=a9b-15c-13e-7f-8g-10h-4i-10j-5k-5l-6m-7n-4 set=c-8d-4e-4g-4j-7k4l-5m-4 setting=b-3e4o-6
shorten=a9b-8c-11e-9f-3i-5j-5l-3m-12 shorter=b4k-3o-13 shortly=e-6g4i-3j-3
should=c-11d-6e-7f-6g-15h-5i-12j-6k-5l-8m-17n-7o7 signatu=a-11b-10c-13d-10e-12f-10g-7h-9i5j-13k16l-10m-17n-6o-13
signed=a-6b4c-6d-7e-7f-6g9h-8i-10j-5k-4m-8n-10o-10 size=b17d-20e-15f-12g-28h-9i-15j-15k-18l-14m-16n-11o-6
small=a-12b-6d-8e-9f-15g-7j-3m-3o9 smaller=b7d-8i-3o-5 socket=a-7b-5c-3d-4e-8f-11g5i-6j-4l-3m-5n-7o-7 some=a6l-4
somethi=a-8b4c-6d-8e-5f-5g7i-7j-3k-4m-8n3o-7 sonnet=j4 sorry=a-4c-5d4e-5i-9j-4k-4o-8
source=a-4b-9c9d7e-5f3g-11h-8i-9j-7k-7m-11n-8o-8 specifi=a8c-5d-6e-5f-4i4j-6k-13l-9m-6
spend=a-11b-5c-4d-8e13f-4i-10j-4k-13l-6o-10 spendin=d-8e5f-5i-5j-3 stack=a-14b-16c-12d-9e-5f-7h-6o11
stalled=a-8b-4c-3d-10e-8f-7g-9h12i-8j-3l-3m-3n-15o-9 standin=e10i-11j-5o-4
start=a6b-16d-11e-5g-13h14i-9j-14l4m-18n-22o-13 status=a6b-9c3d7e-9g-3h-11i-5k-4l-9m-10n-8 still=a7o-12
stop=a-19b-21c-16d-7e-6f-5i-9j-5k-6l-6m-5o18 stopped=e-3i-4m4o-5 store=a-4b-7c-5i-10j-12l-6o11
stream=a-10b-14c-18e-14g-7h11i-24j-19l-12m-17n3o7 streami=a-9b-4c-9d-5e-12f-3g-11h8i-8j-18l-6m-4n-4o10
string=a-22b10d-3e-5f-5g-13h-5i-10j-5k-5l-13m-12o7 submit=a-4e-5g-4i-9j-5k4l-3o-5 submitt=a4c-5d-4e-4g-7l-5o-5
subscri=a-12b-4c-5e17f-4g-11h-4i-14j-14k-5l-5m-10n-6o-9 such=a-4b-5c-4d-5e-5f-7g-6h-5j8k-3l-3m-4n-10o-12
sum=a15o-16 supplie=a-11b-4c-5k6l-3m-4o6 support=a-5b-23c13d-12e-15f-19g-24h-6j-7k4m-26n-12
sure=a-4d-4e5g-3j-10m-4 suspend=d-4e3i-5 switch=a8o-7 system=a-11b-17c-19d-4e-7g-6h-5i-15j-14k-12l4m3n-5o4
take=a7b-5c-7d-10f8g-4i-6j-10l-6m-7n-4o-10 task=c-3d-5g5h-11i-4n-5 team=e5i-6
tempera=a-13b-16c-15d-3e-8f-7g-4i-12j-10l-11m-11o17 tempora=a-8b-5c-7d-8e-12f16g-12h-16k-6l-4m-9n-17o-14 tensor=g7
termina=a-7b-5c-9d-9e-6f-7h6i-3j-10k-5l-4m-5n-6o-7 terms=a-13b-4c-7d3e-10f-7g-4i3j-12k-4l-6m10o-10
test=b3c-3d-3e-5f-4g-6i-8j7k-3o-7 text=a8b5c-3d-15e-12f-10g-23h4i-9j-14k-8l-19m-9n3
than=b7d-16e-5f-4g-9h-9i-6j-19k3l-11m-16n-10o-4 that=b4d-7e-9f-4g-8h-5i-13k-11l7n-5o-8 the=d-5e-6l9m6
there=a-9e-6f-5g-5i-4j5k-4m-4o-6 thinkin=a-13b-13c-22d-12e-15f-5g-7h-12i-9j-22k31l-15m-17n-10o-29
this=a4b-7d-4e4f-6g-8h-11j-4k6l-5m-3n-4 thought=a-11b-8c-12d-4e-8f-8g-5i-14j-11k14l-6m-9o-9
throttl=a-14b-11c-8d16e-11g-16h-5i-15j-14k-6l-9m-12n-6o-13 through=j4 tier=a-4c-14d-4e8f5g-9k-13l-12m-4o-17
time=b-12c-9d8e-7f-19h3i-8j-7k-5l-4m-4n-4o-9 timed=a-10b-7d-8e-12f-20g8h6i-15j-10k-5l-6m-8n-8o-6
timeout=a-16b-17c-6d-20e-15f-7g6h16i-21j-12k-10l-9m-24n-24o-18 to=a-5e-3f-4h-19i4l-4m4 today=d10e-11f-3
token=a9b-33c-27d-7e-6f-18g-6h-5i16k-7l-18m-19n-3 tokens=a22b-47c-38d-12e-5f-31g-23h-4i-6j-21l-21m-26n-6
too=b7d11e-8f-7g-21h-19i-23j-12k-11l-16m-21n-18 tool=a-7c-5d-11e-12f-9g-10h-10i-17j-16k-9l18m-25o5
toolcon=a-10k-5l4 toolres=b-5c-3k-7l7o-8 tools=a-17b10c-22d-13e-12f-9g-7i-12j-16k-5l-15m-11o8
tooluse=a-12b-6c-6e-4g-4j-4k-8l8m-8 top=a-10b-8c-11d-4f-5g-5i-12j-5k-11l-10m-7o12
total=b5c3d-15f-7g-12h-4i5j-6k-10l-9m-7n-11o-16 tpm=a-13b-13c-3d17e-14f-6g-7h-5i-5j-7k-4l-3m-5n-4o-4
traffic=d-9e-5f7 trial=e6i-14j-4m-5 trigger=d3e-4f-6 true=a-4c-7 truncat=b-9c-5d-4e-5g-8h4i-12j-9k-12l-11m-7n-6o7
try=c-4e-5f6g-4h-8j-7k-10l-5m-9n-9 trying=a-9c-4e-3f4g4h-10i-4l-4o-7
turn=a3b-4c-14d-7e-6f-11g-17i-11j-6k-12l13m7n-5o-17 type=a-13b-20c13e-7f-9i-13j-12l-11m-12n-9o5
typeerr=b-3c-8d-7e-5f-5i-10k-4m-5n-4o-9 uminfer=i4j-5 unable=b-4d-3e-5f3g-4i-9k5m-6n-3o-6
unautho=a-5b-5c-5d-6f-6g-7h-5i8j-7k-4l-4m-6n-6o-5 unavail=b-8c-13d-11e-12f12h-16j-9k-14l-14n-7o-12 und=b-3f-4h3i-3
under=a-6b-14e-4f6g-10i-4m-4o4 unexpec=a-12b-7c-6d-5e-11f-3g14h-13i-21j-15k-7l6m-12n-23
unhandl=d-3g9h-9i-3m-4n-6o-13 unique=b-5k-5l5 unknown=a-15b-17c-10d-12e-4f-19g11h-19i-19j6k4l-5m-24n-19
unrecog=a-10b-4c-4k6m-4o5 unsuppo=a-15b-15c6d-6e-10f-15g-12h-6k7l-17m-21n-7
up=a4b-8d-18e5f11h-10i-13j-13k-8l-7m-10n-11o-4 update=b-4 upgrade=a-5d-8e11f-3g-3i-12j-4 upload=a-11b4d-4e-4f-3o-8
uploade=a-5c4 upstrea=b-16c-11d-7g10h-8j-18l-12m-20n-13o5 uri=a-13b4c5d-15e-13f-9g-8h-4i-5j-5n-6o-10
url=b-7c7d-13e-8f3h-12i6j-5k-7l-6n-4o-15 us=d-6 usage=a-11b-5c-11d-10e18f-4g-6i-14j-5k-4l-3o-10
use=b-16c-5e-11f-8h-12i7j-6l4m-10n-8 used=a5b-4c-4d-8e6f-5g-9h-6i5k-7n-7o-9
user=a-4b-21c-14f-11g-17h-10i10j-13k-14l9m-17n-17 using=b-3g-5k3l3m-5o-12 valid=d-18f-7g-15i4l-5n-10
validat=c-4d-12e-9f-5g-13h-5j-11k-10l-7m-6n-5 value=a-12c-8d-11e-10f-11h-11i-14j-9k10l-3m-14n4o5
valueer=a8b-13d-3e-6f-8g-9h-7i-8k-4l-5n6o-17 values=a-4b-7d-4e-6f-4g-6h-7i-9j7l-6m-4n-9o-8
verifie=c-10j-4k10l-3m-6o-9 verify=a-3d-5e-11h-3i9j-8k-5m-4n-5o-10 version=a-9b-5c-13e-5f-4i-8j3k-5l-4m-5o10
video=a-17b-16c20e-7f-8g-8h-4i-6j-7k-7l-6m-13o-16 violate=a-7c-3d-3e-7f-4g-11h-4i-5j-5m9n-6
violati=a-10b-6c-6d-8e-6f-7g-5h-3i-11k-5l-6m13n-4o-8 vision=a-7b8c15d-13e-7f-4g-14i-5j-14k-9l-9
visit=a-5c-5i-5j5l-6o-7 vs=a-3b4c-4d-7g-3h-3i-9j-10k-8l-4n-4o9 wait=a-9b-10c-6d6e-3g-11i-6o-5
waiting=a-7d-6e-6f8g-13h7i-12j-6l-3o-4 warning=a11b-9c-6d-7e-8f-4g-6i-3o-14 was=b-9d-9e-9f5g8h-5i-6j-7k-5l-16n-11
we=b-12c-10d-3e-5g4j3l-4n-6 webp=c7g-5m-3o-4 websock=a-11b8c-5d-12e-3f-5i-11j-4k-4l-5m-5n-10o-10 weekly=d-4e5
went=a-4b-5c-6d-7e-4f-4g7i-7j-3k-4n-4o-4 were=b-13e8g-7i-6j-4k-6m-5o-13 when=b-7c-4e-5f-6h-4k6n-4o-11
which=a-9b6c3g-4i-4j-5k-4l-7m-5 while=b-9d-6e-3h6i-7j-5k-4m-6n-7o-9 whitesp=a-6b-10c-10k-10l-9m-10n-4o11
width=a-3b-3c7o-6 will=d-6e4 window=a9b-9c-14d-7f-7g-14h-7i-7j-7k-6l-5m-9n-7
with=a-13b-4c-11d-3e-6f-9j-16l14m-5n-5o4 within=b-3e-5f-3g-11h10i-4l-4n-11
without=a-9b-5c-7d-7e-4f-6h7i-6j-12l5m-11o-13 work=e-9i6j-3k4o-6
worker=a-8b-8c-5d-8e-5f-10g10h-3i-4j-3l-4m-7n-4o-4 workers=a-10b-6c-6d-7e-7f9i-7j-10k-3l-7m-7n-4o-7
workspa=a-4d-3f-5g-3i7j-11k-3m-9n-3o-4 would=a4b-3c-5e-10f-6g-8h-3i6j-5k-4l-4m-7n-5o-9
wrong=a-4b-5d-7e-5f-4g7i-7j-4l-3m-4n-4 xxx=a-6b7c-6d-3e4f-4g-7i-3j5k-6l-5m-3o-9 xxxx=e-3f-4i-7j7k-4l-3o-5
yet=a-10b-10c-10e10f7g-9i-12j-13k-5l-10m-10o-12 you=a-7b-7c-5d4e4f-13g-11h-10i5j-4k-3l-11n-16
your=b-5c-10d-4e12f-11h-9i-4k-12l-6n-12o-5 youre=a-3b-3d4f-3o-5 youve=a-4b-5c-4d-5e7f-6g-5i-4o-6
已达到=a-16b-10c-9d-16e14f-7g-3i-4j-4k-4l-5m-6o8 请求失败=a11b-13c-11d-9e-10f-12g-10h-10i-10j-6l-3m-8n-11o-15
输入内容过长=a13b-12c-12d-12e-12f-12g-10i-12j-13k-11l-11m-15o-14 错误=a10b-13c-13d-12e-13f-12g-10i-11j-13k-12l-11m-15
"""
