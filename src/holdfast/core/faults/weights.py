"""How much each word speaks for or against each kind of failure: see `likeness`, which reads it.

Written by `python -m tests.core.fitting` from the refusals that tests keep; not for editing by hand. A word, then the
letters of kinds, each with its weight in tenths of a natural logarithm.
"""

WEIGHTS = """
200=a-10b-15c-18d-15e-15f-13g-9h10i-13j-22k-19l-21m9n22o-12 400=a8c9d-10e-11f-11g-23h-28i-13k5l4m11n-37o8
401=a-15b-16c-15d-13e-13f-20g-22h-15i26j-10k-14l-12m-18n-18o-19
402=a-16b-19c-16d-19e25f-19g-22h-19i-21j-16k-13l-13m-20n-23o-19
403=a-21b-23c-20d-7e10f-26g-29h-18i19j-12k-19l-17n-23o-24
404=a-13b-8c-8d-18e-15f-19g-20h-13i-12j13k-5l-22m-15n-19o7 408=a-5b-7c-6d-6e-8f-13g14h-13i-5j-7k-4l-4m-10n-3o-9
410=a-12b-12c-12d-13e-11f-15g-15h-13i-15j15k-12l-12m-15n-16o-13
413=b22c-4d-7e-20f-23g-27h-19i-25j-21k-15l-15m-23n-22o-26 422=a8d-18e-7f-11g-17h-9i-19j-12k-9l-12m-5n-11o7
429=a-20b-25c-21d21e10g-30h-19i-27j-23k-16l-15m-25n-25o-25 500=c-7d-22e-19f5g18h-16i-22j-23k-14l-5m-11n-21o-29
502=a-7b-18c-14d-18e-17f7g14h-11i-9j-16k-16l-9m-15o-9 503=a-19b-25c-19d-11e-23f19h-20i-24j-5k-15l-14m-23n-25o-22
504=a-8b-13c-7d-13e-9f-15g19h-18i-7j-10k-6l-6m-8n-9o-12
524=a-13b-13c-13d-13e-13f11h-16i-15j-13k-12l-11m-15n-15o-14
529=a-14b-13c-13d-14e-14f15g-15h-12i-15j-14k-12l-12m-14n-14o-14 None=b-11c-5e-5f-4g10h10i5j-9k-13l-12n4o-7
abc=a-3b-4c-15d-4e-5f-4h-12i-12j-14k-7l8m-5n-6o8 aborted=a-8b-6c-5d-12e-7f-11g14h-13i-12j-8l-4m-12n-9o-7
about=c-4i-4j4l-5o-4 above=a-4b12c-7g-6j-7k-6l-3m-8o-6 accept=a8b-4c4d-5e-7f-6i7j-15k-7l-4m-11o-13
accepte=a-5e-4i-7j-3k-5l-5o5 accepts=a11c-3e-3f-4j-6k-5l-5m-7o-7
access=a-11b-5c-10d-9e-3f-9g4h-11i5j7k-13l-6m-8n-15o-11 account=a-17c-9d-6e10f-12g-19h-9i4j6k-10l-11m-10n-12o-8
acme=a-4c9e-5f-8i-6k-8m-7o-14 active=d-3e12h-3j-12m-4n-4o-3 actual=d-6e-8f-4g-4k-4l-3m-5
add=a-8b-7c-6e6f-5g-5k-5m-12n-3o-5 additio=c-6e-5g7i-8l-8m-8o-4 address=d-3e-6h-5i4j-5m-4o-4 adjust=c-3e-4i-4l-7o4
admin=a-8c-3e5f-4j-10k-4m-7o-7 after=c-8f-16g7h-15i-4j-9k-5l8m-7n-8o-10 again=a-5f9g-3h-8j-13k-9l-4m-6n-9
agent=e-7f-4i3o-7 ai=a-7b5c-8f-14h-11i-4j-6k-7l-6m-8n8o-8 aierror=a-15b-6c-6d-11e5f-7g6h-5i-5j-5k-4l-4o8
algo=a4b5c-3o-10 all=a-10b-9c-4d7e-5f7g-12h-6i-10j-9k-6l-10m-8n-5o4 allocat=b-11d6e-7f-6g4h-5i-3n-3o-4
allowed=b9c4e-16f-18g-16h-9j-5k-4l-12m-9n-13 allows=a-4e-3j-4k-6o5 alterna=a-9b-7c-8e-4f-3g-4i-7j-4k-8l10m-7o-13
always=d4e5f5g13i7k-5l-7m7n7o5 amazon=a-16b-11c-8e-8k-7l-10m-13o5 an=a-7b-9c-5d-10e-6f-21i-5j-5k-8m-13n6o8
and=a9c-9d-5f-12g-8h-8i-11o-6 anthrop=c-4d-4f-10g6i5l-3n-8o-6 any=a-12c-11d-4e-5f-5g-7h-4i-6k-5l-3m-13n10o3
api=a-6b-5f-18g4h-12i9j-11l-15m-11o-6 applica=a-4b-4c5f-6g6i-7j-4k-4m-9n-4o-4 are=c5e-6f4g-14h-8i-8j-7l3m-7n-7o-7
argumen=a-5b-6d-5e-11f-6g-7h-3i-9j-8k4l-6m-22n-3o9 arn=a-3 array=a-15c-6d-4e-7f-5g-6i-5j-4k-4l5m-3n6
as=a-9b-5g-9l-4o5 assista=a-6b-8c-7d-6e-4g-4i-5j-4k7m-7 at=a-6b4d-7f5g4h-10i-15j-4k-5l3m-27n-12
attache=a-11b-8c13e-4f-5g-7i-10j-8k-6l-5m-15o-8 attempt=a-5b-9c-6e-9f-6h-5i-7j-6k-5l-4m5n-3
audio=a-17b-18c23d-7e-13f-5g-6i-8j-13k-16l-5m-9o-8 authent=a-6b-6c-6d-6e-11f-6g-10h-7i12j-8k-8l-6m-9n-7o-10
authori=a-8b-6c-4d-10e-10f-8g-16h-9i16j-6k-5l-4m-13n-13o-11 automat=o-4
availab=b-11c-13d-3f5h-9i-7j4k-16l-12m-18n-14o-7 aws=b-6d-4e-5i-3 back=b-4d6e-5f-12g-5h-4i-7k4l-3m-5o-3
backend=b-4c-3d-4e-4f-5g7h-4i-3l-3m-4o-10 bad=b-12c-10e-10g-8h-12i-9l-5m-20n-12o12
badrequ=b-24c11d-12f-10g-12i-8j-14l-10m5o-7 balance=a-9b-9c-8d-11e20f-18g6h-14i-21j-12k-6l-6m-17n-18o-10
base=a-4b-5c12g-5i-3j-3k-6l-4m-14o-11 batch=a4b13c-12d-7e-4i-3k-5o-18 be=a-7b-7c-5d-12e-8g-7h-12i5k3l-3m-4n-6o7
because=b-10d-4g-4i-6j-6l-5m8n-10o-9 bedrock=b-7e-8m-3o-4 been=b-11c-12d6f-8g-8h-9i5j3k-7l-6n-9o-11
before=a-7b-5e-6g-5h11i-7j-5k-4l-3m-3n-8o-13 beginni=a-13b-15c-13f-8k-5l9m-5
being=b-8c-3d-4g-6h-5i-3j-3k-4m6n-3o-3 below=a4g-6i-4 between=a-10b-5c-7e-4i-10j-4l-6m-4n-3o11
beyond=a9c-9g-4i-4j-9l-3m-8o-6 bias=a-12b-13c-11d-14e-9f-3i-4j-7k-3l-3m-3o13 big=a8b6c-5d-9e-3f-4g-9h-9l-3n-8o-12
billing=a-9b-5c-5d-17e15f-12h-5i-13j-5k-4l-3m-4n-3o-4 block=a-7b-7e-4g-3h10i-5j-5k7m-4n-12o-8
blocked=a-8b-14c-10d-15e-15f-11g-11h-16i6j-11k-9l-7m11n-15o-13 blocks=a-10b-12c-5e-4f4g-6i-4j-4l8m-13n-6
body=a-16b14c-7d-11e-16f-14g-6h5i-6j-9k-7m-26n-7 both=h-3m-3
budget=a-6b-12c-11d-16e15f-10g-10h-7i-11j-11k13l-9m-11n-8o-21 buffer=a-4b7f-10g-7k-3m-3o-4
busy=a-8b-7c-10d-7e-5f10g-10h-4i-4j-4k-4l-6m-6n-5o-8 but=a7d-8e-5f-7g-6h-3i-10l-12n-4
by=b-16e-8h-9i-7j-15k-10m9n-6o-5 byte=a-7b6g-4o-6 bytes=a-17b10c6d-10e-8f-7g-6h-4i-7j-14k-8l-7m-14n-3o-18
cache=a-5b-13d-8e-5g-7j-4k-4m-4o10 calcula=c-3 call=a-4b-24c-14f-17h-10i-12j-3k-4l18m-10n-11o-8
calling=b-3c4e-4f-14i-5j-15k-13l-12o3 calls=a-9c-11d8e-4f-8g-11h-8i-5j-4l10m-5n3o-13
can=b-9c-6f-5h-3i-8k-6l-8n-3o9 candida=a-5b-5c-6d-5e-8f-7g-12h-8i-9j-4k-3m-3n12o-12
cannot=b-10c5d-6e-7f6g-7h-4l-12m-9n-8 cap=b-4c4d-11f3g-4i-4 capacit=a-8c-10d-17e-7f19g-14h-4i-9j-13k-4l-4m-4n-5o-7
categor=a10k-3o-10 cause=g-4h5 certifi=a-5b-4c-4d-6e-6f-6g9h-8j-5k-3m-6n-10o-4 cf=f6g-8
charact=a-28b15c-7d-9e-9f-8g-9h-5i-7j-7k-13l-7m-13n-5o7 chars=a-13b7c-8d-7g-3h-5l-4n-10o7
chat=c-15e-6f-5h5i-10k-11l-4m-11n-12o6 chatgpt=c-3i-3j6k-6l-6o-5 check=a-9b-7c-10e-6f-8h-6j6k-8l-6n-4
choice=a-5b-9c-12i-5j-9k3l-12m-3o7 choices=b-5d-6e-4f-6g-10h-12i-6l-5m-7n10o-4 chunk=e-4f-4g-11h10i-6j-4k-4n-11o-9
claude=a-5b-9c-11d-8f-6g-4i9j8k-10l-4m-8n-4o-4 clear=a-4b3c-4o4 client=f-7g7i-8j-4l-3m-10n-3o-10
closed=a-8b-11c-6d-9e-5f-16g5h7i-14k-4l-6m-9n-15o-10 cloudfl=a-3d-9f-5g5o-3 code=a-3b-6c-4e-20f-9g6i6k-8l-5m-7n-14
codex=c-4i-6k-6l-6m-5o5 coding=e-6f-4i5o-4 column=a-4b-6c-4d-3e-3f-3g8h-3j-5n-5o-5
com=a-4b-4c-4e-3f-5g10h-6i-8k-3m-3n-7o-6 come=d-10i-3o-4 command=f-3g3j3 compact=a7c-4g-6n-3o-8
compati=c-8e-4f-5i-4k-9l-10m-8o6 complet=a-8b-11c-17d-12e-7f-13g-6h3k-11l-7n7o7 compres=a11o-12
concurr=b-4d12e-17f-6 config=a-4c-5d-5e-7f-3g-5i-15k6l-7n-3 configu=a11c-6e-5i4j-3o-14
connect=a-8b-3c-10d-14e-10f-9g15i-14j-12k-5l-7m-9n-5o-8 conside=c-4e-4k-7m5o-10 console=a-5b-4d-5e-3f5h-3i-7m-4o-7
constra=a-6c3o-3 contact=a-6d4f-5h-3i-6j4k-3 contain=b-16c5d-8e-8f-8g-10h-16i-9k-5m8n10o-7
content=a-5b-5c-7d-17e-12f-17g-6i-22j-17k8l-12m18 context=a23b-34c-22d-23e-4f-21h-19i-21j-19k-19l-15m-21n-20
continu=a-3d-4e10i-10 control=a3b4c-5d-5g-5i-5k-4m-3 convers=a17d-4e-11f-7g-8h-6i-15j-14k-8l4m-17n-4o-11
copilot=a-4b3d6e-6o-4 correct=k5o-6 corresp=b-5j6k-4l6o-11 corrupt=a-9b-7c8d-5e-6f-5g-6i-9j-8k4l-7m-12o-9
cost=a-8b-7c-5d-4e9i-3 could=b-14d-5e-6f-10g5h-5k6l-12m-8n-7o-6 count=a7b-15d5e-5f-9g-9h-7i-7j-14k-9l-5m-16n-5
crashed=a-9b-3c-5d-4e-3f-9g10h-5i-4j-11k-4l-9m-9n-6o-5 create=a-14b-6f-4g-14h16i-6l-4m-17n-20
credent=a-7b-7c-9e-7f-10g-14h-8i20j-15k-7l-7m-7n-9o-5 credit=a-8b-6c-7e9f-4g-4i-8j-8k-5m-5n-5o-9
credits=a-10b-8c-11d-12e19f-9g-10h-6i-15j-16k-10l-10m-6n-8o-15 ctx=a7c-8e-5i-4j-7k-12l-7m-9 cuda=f-4g7h-4
current=a-10c-16d5e8h-5i-5k-10l-11m-9n-10o-3 custom=c-4j5k-6o-6 daily=a-13b-4c-7e9f-6g-4i-6m-3n-3o-7
data=a-5c10d-9e-7f-5g-11h5i-6k-4l-5n-6o-6 day=a-7d7e-7 deadlin=a-15b-11c-6d-12e-11f-10g15h-7i-4j-4k-4l-5m-7n-4o-8
decode=b-9c4d-10e-7f8g-13h-6i-10j-8k-5l-4m-13n-8 deepsee=c-10g-5i-5j4k-11l-7o6
default=a-7b-7c-7d-12e-7f-16g-11h-6j10k-5l-6m-7n-5 defined=a-8b-5c-3g-4i-3k-7m3 degrade=a-6f8i-3j-7l-5o-11
demand=b-4i-6 denied=a-4b-4c-4f-8g-12h-10i9k-4m-17n-14o-10 deplete=a-8b-4c-4d-13f12g-14h-7i-14j-4k-4m-5n-8o-8
deploym=b-11c-9d6e-5f-9g-4h-8i-14j10k-6l-8m-7n-8o-16 depreca=a-9c-4d-4e-6i-8j9k-3m-7o-3
desc=a-6c-6e-3f-7g-7h-7i-11j7k-3l-5m-4n-5 details=a-7b-4c4d-4e4f-3i-4j-4k-5l-8m-5
detecte=a-15c-9d-7e-10f-5g-6h-4i-16j-8k-9l-8m20n-4o-17 develop=c-7d-4e-4f-4g3i-9j-6k-7l-13m-8o13
did=a-5c-4e-4g-5h-3i-4j-8k-3m-6n7 dimensi=a-3b-12c5d-5e-6f-4g-6h-4i-4j-4k-4l-5m-3n-4o6
disable=a-10b-4c8d-6e-10f-5g-12i10j-10l-5m-13o-10 disconn=a-7b-11c-5e-5f-13g8i-6j-3l-3m-4n-6o-11
do=c-3j6k-4l3m-4o-9 documen=a-10c10d-10e-8f-6g-5i-17j-13k-13l-10m-15n-3 does=a-5b-12d-5f-8h-5i-9m-10n-12
doesnt=a-3c-6e-3j-7k-7l-6o8 dont=d-3e-6i6k-3m-5o-5 down=a-12b-12c-6d14e-14f-19g4h-13i-16j-5k-11l-11m-16n-16o-17
downloa=a-4b-3c8g-3k-4l-3m-5o-6 due=a-5b-4c-4e7f-3i-7j-5k-3o-5 duratio=a-13b-12c14d-6e-7f-6k-4m-5o-12
during=b-7d-11e-6f11g-9h-6i-9j-5k-3m-13n-6o-10 each=b-9c5d-4e7i-13j-4m-8o-7 earlier=a5e-3i3o-3
econnre=a-5b-5c-10d-6e-6f-11g11h-13i-8j-3m-10n-9o-6 effort=a-6b-6c-14d-3e-4f-5g-3i-5j-12k18l-10m-11o-18
either=a-6b-4c-4g-4i-4k-8l-11m-3n4o6 element=a-15b-13c-13d-7f-4j-9k-7l-8m-11n-6o14 embeddi=a-6b-8c-10j-4k-4l-3o10
empty=a-15b-12d-14f-15g-19h-20i-19j-22k-16m-24n18o7 enable=c-10i-5j-7l-3 enabled=a-8b-4f-3i-10k10l-5m-7o-9
encoded=a7c4g-3j-4o-11 encount=d-5f-13g7j-3m-3o-8 encrypt=a-12b-12c11d-4e-8f-8g-6h-4i-8j-10k11l-8m-17o-20
end=a-8b-16c-11d-12f-8g8h-12i-14j4k-11l11m-16n-6 ended=a-5b-4c-4d-12e4f-12g-8h10i-13j-6k-6l-4m-6o-18
endpoin=a-6b-14d-6e-5g-8h-11j11k-6l-11m-13n-10o-11 engine=b-15c-13e-10f4h-6i-9j-14k-7m-13n-6
enough=b-9c-12d-6e12f-4g-13h-4i-18j-14k-10l-11m-17n-7 ensembl=a-5b6c-3o-8 ensure=a-4b4c-5e-6f-3i-4k-3l6n-3o-13
entity=a-9b11c-10d-14e-5f-6g-6i-12j11k-7l-3m-4o-21 eof=a-4b-5e-6f-12g8h-7i-6j-5m-4n-6o-6 equal=a-6e-3i-7j-4m-5o4
err=a-4b-4d-4e-5h6i-9j-6l-3n-5o-6 error=g6m-4n-14 errors=b5c-9d-7e-5j-4m-4o-3 estimat=a8b-3e-3o-5
event=a-5c-4d-4e-3f-6g-10h12i-5j-3k-3n-8o-7 example=a-10b-7c-11d-10e-12f-5g9h-12i-15j-6k-6l-4m-9n-10o5
exceed=a-4b-11e5f6g-19h-8i-10j-7l-15m-16n-9 exceede=a3b8d9g-11h-7i-28j-22k-3l-14m-17n-23o-10
exceedi=b-3d3g-4i-6o-4 exceeds=b8c5d-22e-15f-6g-21h-13i-12j-12k-3l-9m-21n-10o6
excepti=b-5c-4d5f-8g5h-11j-12m-9n-8o-5 executi=g-3h6n-4o-6
exhaust=a-10c-13d8e10f-4g-19h-13i-21j-15k-9l-7m-10n-14o-10 exist=c-13d-3e-6f-4g-14i-8j14k-4l-4m-4n-9o-12
existin=g5h-4 exit=a-8c-5d-3g8i-4j-10l-8m-7o-3 expecte=a-7c-7e-8f-8h-5i-5j-5m-9n-6o6
experie=a-3b-3c-3d-10e-5f10g-5 expired=a-11b-9c-10d-13e6f-13g-9h-14i10j-11k-5l-4m-15n-15o-12
extra=a-16b-9c-11e9i-9j-7l-8m-9 failed=e-15g7h-17j-6k-8l-14n-9
failure=a-3b-5c-4d-11e6f-10g8h-6i-4j-8k-6l-4m-5n-9o-3 false=b-4i-7j-6k4l-5
fetch=a-13b-7c6d-8e-4f-12g15h-8i-11j-5k-7l-9m-16n-4o-13 fewer=o-4
field=a-16b-13c-13d-6e-13f-7g-15h-6i-13j-14n-8o13 fields=b-11c-8d-11e-3f-5g-6i-3j-4o8
file=a-11b-19c23d-12e-9f-7h-4i-8j-7k-11l-12m-10n-10o-4 files=a-8b-9c11d-3i-3m-4o-7
filter=a-7b-8c-10d-3f-4g-8h-10i-5j-4k-5l-5m12n-12 filtere=a-5b-6c-6d-5e-5f-4g-5h-4i-5j-7k-11l-12m10n4o-13
filteri=a-4b5g-4i-3j-6k-3m5o-8 final=a-3b-4g-3h6l-7m-5n-8o6 find=a-3c-4d-3e-4f-3g-5j5k-3n-4o-4
finish=a-4b-11c-6d-8e-5f-6h6i-12j-4k-5l-3m-12o-11 first=c-4d-7e-7f-5g-9h7l4m-6o-12 fit=a7f-11g-3o-7
flagged=a-14b-9c-9e-8g-4i-7j-7k-4l-3m12o-13 flash=a-6b-3e-3i-7j9k-7o-11 follow=b-3c-4k-5l7o-8
followi=a-6c-7e-3k5l6m-4o-11 foo=a-20b-13c-17e-9f-11g-13i-6j17k-12l-6m-12o-4 for=b-6c-7f-4g-8h5l3n-17
forbidd=a-8b-7c-7d-8e-9f-4g-7h-4i10j-7k-9l-4m-12n-6o5 format=a-6b-11c4d-4e-4f-7g-9i-9j-8k-4l6m-4 formats=c5o-6
found=a-5b-7c-6d-14e-15f-4g-22h-15j8l8m-14o-6 free=a-4b-5c-4e9g-8h-3i-5j-10l-4m-4o-9
frequen=b-4c-3d8e-7f-4g-9h-4i-5k-3n-5o-10 from=a-13c4f5g-4i5j-10k-7l8m-19o-6
full=a11b-5c-5d-12e-14f9g-11h-4i-6j-6k-5m-6n-5o-12 functio=b-10c-24d-7e-9f5h-6i-14j-5k-6l7m-13n-5o7
gateway=a-7c-7d-11e-3f-10g13h-12i8j-10k-5l-5m-14n-12o-13 gemini=a-8b-7c-3d-4h-5j5l-5o-10
generat=b-10c-11e-4g-10h-14j-8k-10l-6m-11n11o7 get=a-3g-4k-3l-4 given=a7b-6e-5h-3i-5j-4k-4l-3n-3o-5 glm=d4e-4
go=b-3d-7f-5g8h-11i-5n-9o-8 good=e9i-11j-6o-4 google=c-4i-4k-4o-7 got=a9b4c-5d-9f-6g-3h-5i-11j-6k-15l-7m-8n-8o-7
gpt=a-4b5c-6d6e-13f-8g-7h-5i-5l-6m-4n-4o-4 greater=a-4b-13c-9f-5g-3k4o6 grok=c-6j-5k5o-6 group=f-4i-11j8k-5o-10
guardra=a-11b-10c-11d-7e-8f-9g-7i-10j-4k-11l-11m12n-4o-13 had=a4d-5f-3g10h-4j-12m-3n-6o-19
handle=a11e-5g-4i-5j-4k-4m-4o-16 hang=a-6b-4c-4d-5e-7f-8g9h-5i-5m-4n-6o-4 hard=a-10d-6e8
has=a4e4f-13h-11i5k-15m-13n-12o-15 have=a-4b-6c-5d4e5f-5g-9j6k-12l-7m-8n-6
header=a-15b-16c-12d-15e-8f-8g5h-6i5j-9k-6l-3m-6n-5o9 headers=a-4c-6e-4f-7g-8h9i-6n-4o-4
heavy=a-4b-4c-4d-4e4f8g-9i-7j-5m-3 height=a-3c6o-4 here=a-4b-8c-5d-8f-5g-9h-7i-11j10k-3m-3n-4o-15
high=a-13b-7c-10e-12f8g-11h-5i-7j-8k6l-6m-5n-6o3 higher=a-5i-3o-4 history=a8c-4k-3l-6
hit=a-5b-6c-6e4f-6g-5h-5i-5j-3n-6o-6 host=a-6d-5f8g-7h-4 however=a5o-15
http=b-5c-13d6e-4f-16g9h-14i-12j-3l-11m-14n-12 id=a-6b5c-15d-6e-10g3h-7j-3k-5m-13n-9
identif=a-6b-5c-5e-3f-9g-5i-8j10k-6l-4m-12o-10 idle=a-3c-3d-4e-3f-7g-15h12i-4n-6o-4 ids=a-4b-6c-6i-4k-7l12m-9o-11
if=a-3c-8g-6l-5m-3o8 illegal=a-6b-6c6o-4 image=a-23b-30c35d-11e-15f-11g-10h-11i-18j-18k-19l-16n-10o-22
images=a-20b-32c30d-15e-17f-10g-7h-4j-19k-18l-11m-7n-5o-13 immedia=i-6 in=b-15d-6l-4o-3
include=a-8c-3d-5e6f-5g-6i5j-15k-7l-10m-9o-5 incorre=a-19b-17c-19d-14e-8f-10g-9h-4j6k-16l13m-20n-4o-6
increas=b-8d6f-4g-3i-4m-3o-14 index=a-4b-8k5l-6 indices=a4o-5 inferen=a-3c-5f-12g8h-4i-5k-5l-5m-8n-5o-9
informa=a-6b-7c-9e-6f-6g7h-3i-10j-15k-6l6m4n-4o-8 initial=a-8b-7c-3d-4f-3g-7i-3m-5o7
input=a20d-8e-17f-13g-15h-13i-18j-23k-12l-9m7n-14o-9 inputs=a16b-4d-5e-10f-6g-9h-3i-10j-7l-8m-10n-4o-5
instead=a-16c-5i-10j-8l-8o11 instruc=d-3i-4j-10k-7o5 insuffi=a-15b-13c-8d-15e14f-9g-20h-16i5j-11k-8m-19n-20o-13
integer=a-12b-12c-5i-6l-7m-3o11 interna=c-10d-13e-14h-15j-13l-6m-12n-11
interru=a-6b-6c-8d-8e-5f-13g9h4i-11j-5l-3m-14n-15o-18 into=b-3e-6f-4i4o-4 invalid=b-6d-21f-11g-9i7k4n-22o6
invocat=a-3 invokem=a7d-4e-3g-5j3o-14 ip=b-7c-5d8e-11f-4j-4m-4o-3 is=d-8f13g-4h-20l-12m-9n-12
isnt=a-12c9e-4i-5k-9l-5m-10o-11 issue=i-6j-4 issued=a-4b4c-5k3 it=a-6c-11d-11e-4f-7g3j3k-11m4n-5o-4
item=a-4b-7i-5j-6k7l4m-3o-13 items=a-16b9c-10e-5f-4g-3i-7j-6k4l4o-5 its=a3b-9c-11d-4e5f-4g-4i-12l-4m-7n-3o-12
jinja=b-4g-4l3 jpeg=c3g-3o-3 json=a-16b-8c-14d-12e-12f-12g13h-14i-18j-4k-11l-16m-15n-15o12 kb=a-6b5c-5o-4
keep=a-10b-13c-12d-13f-12g11i-11j-15k-8l-10m-14 key=a-18b-17c-16d-9f-9g-14h-12i21j-8k-16l-10m-15n-15
kimi=d-3e-5f-6g5h-7i-5j6l-4n-7o-3 languag=a-3b-6c-14d4e-8f-11g-12h-3i-14k-11l-10n-10o11
large=b6c4d-4e-11f-17g-17h-4i-10j-6k-7l-6m-12n-5 larger=a-5b11c-4d-9e-5f-6g-7h-4i-5j-6k-8l-4m-11n-4o-3
last=b-5c-5d3e-5i-7k-9l12m-4o-16 later=a-13b-12c-9d12e-7g-4h-6i-10j-6k-4l-5m-7n-6o-10 learn=c-3i-4j5l-4o-4
least=b-14c-8d-4e-6f-6g-6h-5i-7l-9n-6 len=a15b-11c-4d-3g-5k-3o-15
length=a16b6c-12d-15e-16f-17g-5h-7i-11j-14k-19l-19m-22n-7o-9 less=c-4d-4e-7g-4i-8j-5k-14l-6m-4
level=c-3i-3j-8k4l-4 library=c-3k-3o5 life=a-7e-6g-4j6o-3 like=a-3c-4d-8e-5f-4g-7i7m-7n-5o-4
limit=a7d6e7f-21g-31h-30i-29j-26k-8l-19m-35n-33o-3 limited=a-7b-7c-11d10e-7f-11g-3i-6j-6k-5o6
limits=a-11b-7c-10e5f-12g3i-4j-3k-5 line=a-5b-6c-4d-5e-9f-5g8h-3i-11j6k-3m-5n-5
list=a-15c-7d-7e-4f-4g-4h-3i-7k-10l-6m-13n-5o8 lite=e-3g3 litellm=c-4d-7e6f-7g5h-11i-4j-6m-4 live=a-5i-5j8o4
llama=b-6h-4i-5k-4l-4m-5n-5o-12 llm=b-16d-4f-13j-4k-5l-8m-7 load=a-13c3d-8e-7f11h-11i-7j-6k-6l-5m-10n-7o-8
loaded=a-7b-7c-9d-6e-8f6h-12i-6j7k-8l-6m-9n-7o-12 loading=b-3e-3f9g-9j-14k-3 local=a-8b-5f-5g-5i-4o7
locatio=c-7d9e-12g-3i7k-4l-7o-13 login=a-5b-4c-6d-7e-6f-6g-9h-9i10j-5k-5m-12n-10o-12
logit=a-12b-13c-11d-14e-9f-3i-4j-7k-3l-3m-3o13 long=a6b4c-4d-12e3f-17g-12h-10i-10j-16k-11l-17m-17n-15o-6
longer=b-13c5d-3e-7f-12g-3i-11j4k-9l-6m-12n-6o-4 low=a-6b-6c-6d-4e5f-4j-8k8m-4o-10
lower=a-9b-11c-8d9e-12f-12g-12h-9i-10j-7l-4m-6n-7o5 make=a-6e6g-4j-7m-3
malform=a-7b-14c-11d-13e-7f-14g9h-13i-10j-10k-8l-9m-17n-11o12 many=b7c4d6g-10h-15i-17j-12k-16l-9m-13n-17o-10
mapped=a10k-3o-10 match=a-6b-10d-5e-4f-6g4h-6j-6k-6m-4n-6 matchin=a-3i-4l5o-5
max=a-6b14c6d-9f-14g-18h-17i-14j-16k-14l-14m-23n-21o10
maximum=a4b11c3d-14e-19f-10g-17h-21i-27j-21k-17l-16m-29n-22o5 may=a-11b5d-5e-8f-9g-7i3k-3l-9m9o-16
mb=a-16b3c14d-14e-10f-13g-7h-6i-6j-7k-7l-6m-11n-6o-19 media=a-5c5o-3 medium=c-3j-6k8o-8 member=a-6c3o-3
memory=a-6c-3d-3e-3f-7g7h-4o3 message=a-5b13c-13e-23f-11g-12i-22j-24k-5l7m-6n4 meta=f4g-4j-7
method=a-8b-14c-14d-8e4f-7g-12h-4i-17j-13k-12l-9m-11n-10o12 mib=a-9b9c-9d-5e-3f-4o-8 mime=c10k-6m-3o-10
min=a-3d4e-4 minimal=j-6k5o-4 minimax=a-5e-9f8i-6j4k-6o-13 minimum=a-19b-6c5l-8o17
minute=a-12b-6c-8d12e-15f-4i-5j-3k-4l-4m-3o9 minutes=a-11b-10c9f-7i-4j-4k-6l-4m-7o-11
missing=a-18b-7c-11d-13e-10f-13h-7i10j-10l6m-15n-19o7 mode=a-6b-5c-15d-4f3g3h-7i-4j3k-3l-14n-10o-6
model=b-23d-9e-7g-7h-15i-13j23k-3l-11n9 models=b-17c-3e-10f-6g8h-5i-9j3k-11l-10m-7n-8o4 moderat=a-5e-8i-6j-5m6
module=a-3b5j-6l-4 moment=a-3b-10c-6d4e-4f-4g-5i6 month=a-7d-10e10i-3
monthly=a-10b-6c-4d-8e11f-5g-7h-5i-10j-3k-5m-4n-7o-4 moonsho=a-3e-5f-4g-7h-6i-11j9l-4n-7
more=a9b4c-13e4f-8h-7i-14j-3l-11n-7o-9 most=a-4b11c3d-7e-10f-15g-9h-4i-10j-11k-16l-21m-15n-5o-4 mp=b-4c5o-7
ms=a-4b-7c5e-3f-5h5i-4m-3n-5o-4 msg=a3b6c-10d-4g-5i-6l-6m-5o-7 multimo=a-14b-4c17e-7f-8i-6j-16k-11l-6m-14o-12
multipl=o-4 must=a-5b-4c-7d-13e-17f-12g-15h-12j-21l11m-27n-4o4
name=a-12b-25c-13d-8e-3f-11g11h-8i-14j4k-6l-7m-11n-10o12 names=b-5c-3j4k-6l-10o7 need=b-3c4g-5k-3o-5
needs=b-4c-4d4i-7k-4l4m-3o-6 net=d-3e-4f-3g8h-12i-4j-6n-4o-5
network=a-10b-9c-10d-10e-14f-13g11h-9j-9k-4m-11n-13o-11 new=b-8c5d-11e-8f-11g-12h-8i-4j-4k-4l-7m4n-9
newer=a-8c7i-3j-14k-4m-11 no=a-17b-3c-13d-15g-3h4k-18m-20n12o-7 non=a-8b6c-6d-4e-4g-4l-7m-8n-4
none=b-13c-12f-7i-6j6l-10m-9n-3 not=a-22b-4d-21f-8h-15i7j6l4m-9n-7o4 now=a-6b-4c-8g-5j-4k-5l-4m-5o7
null=a-3c-11d-3g-3h-4k-9m-5o6 num=a9c-7d-3e-5j-6k-11l-6m-8 number=b7c4d4e-11f-6g-5i-14j-7k-11l6m-10n-3o-9
nvidia=b-6f8j-7k-4l-5o-10 oauth=a-15b-4c-3d-8e-10f-5g-9h-13i15j-13k-5l-5m-7n-8o-10
object=b-16c-4d-5f-4g-4i-3j-3k-10l-7o10 occurre=c-4e-6f-14g12h-12i-6k-3l-6n-5o-8
of=b9d7e-12g-6h-15i-5j-5k-4l-10n-9 ollama=a-6b-7c4i-3k-4o4 on=a-6b5c-16d-3e9f-6g-13h-7k5l-6n-5o-13
one=d-10e-4g-7h-5i-6j-6l-17m-10n-4o9 only=a4b-14c6d-7e-8g-9i6j-21k-6l-13m-11n-3o5 open=a-6b-8d3f4g-11m-4n-5o-9
openai=a-6c-7d-5f-7g8h-5k-8l-6m4o-6 openaie=g6o-7 openrou=a5b-3c-3d-7f-6g4i-8j6k-3o-12
operati=a-6c-13d7e-4f-18g7i-16j-8k-8l-8m-14n-16o-10 optiona=k-4 opus=e4j-5o-7 or=a-7b-9d-9f-13j3l-6
org=c-4d3e-6f-3i6j-9m-5o-6 organiz=a-4b-3c-6e-5f-3g-4i11j-6k-4m-4o-4 origina=a-9c-9e-3i-3k-4l-9m-11o11
other=a-5e-5h-10j4k-4o-6 our=a-12b4c-3e-7g-3h-4k-5l-6m8n-3o-10 out=a-5b-14c-10d-18e6f5h5i-8k-13l-10m-21n-11o-8
output=a-19b-20c-19d-6e-11f-15g-13h3i-13j-15k5l11m5n12o4 over=c-6d6e6f5g-17h-17i-16j-10k-8l-10m-10n-12o-18
overdue=a-3b-4c-3d-10e11f-9g-3i-9 overflo=a10b-10c-7d9e-15f-14g-18h-11i-12j-7k-5l-8m-9n-9o-17
overloa=a-7b-13c-7d-19e-9f20g-19h-13i-9j-14k-7l-7m-9n-13o-13 page=a-10b-9c5e-12f-9g-8h4i-13j10k-5m-3n-3o-16
pages=a-13b-19c18d-5e-7f-4g-5h-4i-8j-11k-4l-9m-5n-3o-16 paid=d-9e7f-8i-3 paralle=b-11d12e-14f-3i-6j-3
param=d-5e-13f-9g-14h-4i-19k-8l-23m-21n-4o4 paramet=a4d-9e-11f-6g-15h-4i-18j-24m-13n-4
params=a5b-8d-5f-5h-6i-6j-10k-7l6m-11n-12o4 parse=a-10c-6d-12f-6g-14i-6j-11k-4l-4m-9o10 part=a-4b7c-6d-3o-4
parts=a-4b-4e-3j-4m-4n-4 pass=c-4e-6i6j-3o-12 passed=c-4d3e-4f-6h-9o-8 passwor=b-3c6f-4j-4k-3m-5o-5
pattern=a-7b-7d-4e-5f-4g-13h-3i-9j-4k-4l-10m-3n-4o12 payload=a-6b20c-21d-4e-10f-12g-9h-4i-11k-9l-14m-17n-5o-3
payment=c-3d-5e8f-4g-4h-3i-12j-4k-4l-3m-5n-4o-5 pdf=a-15b-12c20d-11e-11f-9g-6h-4i-8j-11k-16l-8m-18n-5o-16
per=b-5c8d14e-17f-10g-9h-10i-7j-12k-9l-10m-15n-11o-6 perform=e5j-7m-3o-7 period=a-5d5e3i-9
permiss=d-5e-13f-4g-4i15j-13n-4 permitt=a-14b-9c-12e-9i-9j-8k-4l-8m8o4 pixels=a-13b-12c13d-7e-11m-4o-9
plan=a-11b-11c-11d-13e16f-10g-14h-11i-21k-7l-3m-13n-17o-14 please=a-7b-4c-3d5f5g-8h-16i11j-5k-11l-5m-12n-19
plus=a8c-4i-5k-3o-10 png=c8g-3k-6l-3o-11 policy=a-6b-8c-9d-8e-10f-7h-6i-9k-11l-7m12n-8o-11
portkey=a-3b-4c-5d-5e4f-4g-7i-10j-5k-6m-4o7 positio=a4b-10d-4e-3f-3i-4l-7 positiv=a-13i-3o10
post=a-10b6c-13d5e-5f-6g-8i-10j9k-5l-5 pre=b-9g-5o-4 predict=b-8d-8e-4f-6h-3i-5j-4k-3m-8 prefix=a9b-10c-6g-4l5o-8
prematu=b-4f-3g6h-9i-4n-3o-3 previou=b-4c-3d-4e-10g-4i-10j-5k-5l11m-4 pro=a-8c-5f-11g-3i6j4k-7m-6o-10
process=a4b-10c4e-7g4h-5i-10j-14k-4l-7n-4o-14 produce=b-5c-4d-4e-4f-7g-5h-8i-6j-8k-4l-3n7o-8
profile=a-3e-4g-4h-4i6n-3 project=c-4d-9e4h-3i-10k-4l-4m-3o-4
prompt=a22b-18c-11d-12e-12f-11g-16h-7i-21j-25k-17l-9m7n-10o-3 propert=a-13b-12c-12d-4e-4g-5i-4j-4l-4m-5o12
protect=b-3c6f-4j-4k-3m-5o-5 protoco=b-9c-11d-9e-4f-10g9h-8i-5j-5k-4m-9n-3 provide=a-7b8e-12g-3h-8i8j-6k-9m-8
proxy=b-4c-6d-5e-10f-6g4i5j-6k-6l-4m-8n-6o-10 purchas=a-7b-9c-10e12f-4g-7i-9j-11k-6l-9m-10o-10 px=a-5c5o-3
query=a7o-5 quickly=a-3b-4c-3d4e-3f-4o-3 quota=a-18b-9c-7d-5e19f-14g-9h-9i-18j-7k-9l-5m-8n-9o-17
qwen=b-7c-8e-5i-6j4k-3 ran=d-8e8f-6j-3 range=a-3c-8d-12e-8f-8g-11h-7i-4j-7k-9l-6m-8o7
rate=a-13b-14c-13d20e-9f-9g-14h-15i-9j-6k-4l-5m-7n-4o-7 ratelim=a-4b-8c-3f-4g-3i-4o-5
reached=b-12c-17e12g-17h-9i-22k-8l-8m-13n-12o-16 read=a-12b-6c9d-13e-9h7i-15j-13k-7l-7m-7n-15o-6
ready=a-5b-6c-5e-5f12g-15i-5j-10k-4l-4m-3o-6 reason=a-12c-7d-11e-9f-10g4h5i-16j-7k5l-6m5o-16
reasoni=a-11b-11c-20d-6e-9f-6g-8h-6i-14j-9k27l-14m-15o-26 receive=b4c-14e3f-5g-4h7i-12j-10k-12l-14m-18o-5
redacte=b-4k6l-4o-7 reduce=d4e-8f-3k-3o-8 refer=i-4k-3o4 reforma=a-5b-7c-5d-5e-4f-3g-4i-6l-4m-6o8
refresh=a-10d-6e-8g-10h-7i9j-5n-8o-4 refused=a-11b-5c-6d-9e-11f-13g6h-15i-12j-12k-7l-3m9n-17o-12
region=c-9e-15f-8g-10i5j8k-6l-4m-3o-8 registr=c-4j-4k-5o7 rejecte=a-5b-6c5f-16g-8h-4i9j-10k-9l-14n-7o-18
remaini=a-10d-3e8i-10j-9o8 remove=a-3b-6c-3l5 renew=c-3e-4i5o-7 request=b8c-7d11h-26i-6j-5k-5m4n-15
require=a-16b-17c-4d-13e7f-12g-19h-15i8j-4l-7m-7n-16o6 reset=a8b-7c-9d-13f-6g6h-12i-5m-4n-8o-17
resets=a-7b-3c-3d-5e8g-3o-3 resolut=a-3d-4e-4f-8g6h-4i-7j-6k-12l-4m-3n-4 resolve=c-5e-4g5h-4i-5j4k-5m-4n-3o-8
resourc=a-7c-5d12e-9f-4g-4h-9j5k-8l-6m-8n-10o-13 respond=a-6b-6c-10d-8e-6f-12g-4i-12j-15k-5m11n-18o-11
respons=a-7b-13c-21e-6f-9h10i-22j-19k-8l11m-5o6 restric=a-4e-6i7m-4o-5 result=b-4d-3e-4g-11i-4j-5k-6l12o-13
results=a-12b-3j-4l5m4 retry=a-7b-7c-4d10e-5f5i-14j-5k-8l-11n-9o-12 retryin=a5
returne=a-7b7c-10g-9h-14j-3l-10m-5n11 review=d4e-7 right=e-4g-4
role=a-17b-18c-17d-7e-16f-7g-10h-4j-18k-7l12m-19n-4o6 roles=a-9b-7c-9e-4f-3g-4i-7j-4k-8l10m-6o-13
route=b-12c-6d-12e-7f-6g-10h-9i-15j14k-6l-6m-3n-11o-18 row=b-10c-9i-10j-4k-9l9m-4o-13
rpc=a-6c-6e-3f-7g-7h-7i-11j7k-3l-5m-4n-5 rpm=a-4b-5c-4d10e-15f-8n-5 rs=b-4i-5j-5k7l-6o-10 run=a6c-5d-8e5f-4g-11j-6
runner=a-7c-5d-3f-8g8i-3j-5m-5n-4 running=a-4b-4c-3e4f-6i-8j3k-6m-4o-11 runtime=a7b-9c-7g-4 safe=a4b-5c-10m9o-9
safety=a-8c-7d-6e-7f-7g-11h-8i-6j-4k-6l-5m10n-5o-6 sambano=o-3 satisfy=a-6c3o-3
schema=a-9b-7c-12d-9e-5f-6g-5i-5j-8k-8l-6m-10o12 search=a-9b-5c-11j-6k-9m-10o12
seconds=a-8b-10c7d12e-17f-14h9i-9j-11k-5l-5m-7n-15o-9 see=a-15b-5d-3e-5f-5g4i-5j-4k-5l-8m-7o7
selecte=a-7b-7c-13d3e-10g-5h-4i-8j-13k-8l-10m-14n-12o11 send=b5c-3d-4o-5 sending=b-4e-6f-6g10h-13i-5o-4
sensiti=a-7b-5c-5d-4e-4f-4g-6h-10i-4k-3m11n-14o-6 sent=a10b-13d8e-8f-5g3h-7i-7j-7l-5m-6n3o-17
seq=a13b-10c-3g-4o-13 sequenc=a5b-20c-7d-5e-3f-4g-9i-5j-5k-4m-3o10
server=a-3c-10e-18g12h-10i-7j-5k-13l-4m-8n-17o-12 service=a-10b-9c-17d-5f13g3i-9j-7k-7l-5m-9n-10o-13 serving=l5o-5
session=a8b-14c-11e-7f-8g-11h-4i-10j-5k-5l-5m-6n-4 set=c-6d-4e-3f-4j-7k4l-6m-5 setting=o-5
shorten=a11b-8c-11d-3e-7i-5j-4l-4m-12 shorter=b5o-12 shortly=d4e-6g5
should=a4c-12d-7e-7f-7g-15h-7i-10j-7k-4l-11m-19n-7o7 side=g5h-10
signatu=a-11b-9c-14d-11e-14f-8g-7h-5i4j-12k15l-9m-17n-7o-15 signed=a-7b4c-6d-6e-7f-6g9h-8i-10j-5k-3m-8n-9o-9
size=b16d-12e-14f-10g-26h-8i-13j-14k-17l-14m-15n-10o-7 small=a-10b-6d-7e-8f-15g-6i3j-3k3m-3o9
smaller=a-3b7d-10e-4o-4 socket=a-6b-4c-4d-5e-8f-9g11h-12i-6j-3m-4n-7o-5 some=a4l-3
somethi=a-9b4c-6d-7e-5f-5g6i-8j-4k-4l-3m-10n4o-7 sonnet=j4o-3 sorry=a-6c-5d4i-9j-4k-5l-5o-11
source=a-5b-11c9d6e-5g-11h-8i-9j-6k-8l-3m-14n-9o-11 specifi=a10c-5d-6e-4g-4i3j-10k-13l-9m-7
spend=a-10b-5c-3d-7e12f-4i-8j-3k-8l-7o-10 spendin=a-3b-3d-8e5f-5i-5j-3o-3 stack=a-13b-15c-12d-9e-4f-5g-6h-5o13
stalled=a-7b-3d-10e-6f-6g-9h12i-8n-15o-9 standin=e9i-11j-6o-4 start=a6b-15d-13e-5g-12h14i-10j-14l4m-17n-21o-16
status=a7b-10d7e-9f-4g-3h-12i-4k-3l-9m-12n-8 still=a10o-13 stop=a-18b-19c-14d-8e-6f-5i-8j-5k-7l-7m-6o19
stopped=c-3i-3m3o-7 store=a-5b-8c-5g-3i-11j-12l-7n-4o10 stream=a-9b-14c-20d-4e-17g-7h12i-24j-19l-12m-19o6
streami=a-9b-4c-10d-5e-12g-11h7i-7j-17l-6m-4n-4o9 string=a-21b8d-5e-5f-5g-13h-5i-9j-4k-4l-14m-13n-4o8
submit=a-5b5e-3o-6 submitt=a5b3c-5d-7e-4g-8l-5o-5 subscri=a-12b-3c-3e17f-5g-10h-4i-14j-14k-5l-4m-9n-5o-11
such=a-4b-4c-4d-4e-5f-7g-5h-5j9m-4n-10o-12 sum=a15o-16 supplie=a-9b-3c-4j-3k6m-3o6
support=a-6b-21c12d-12e-14f-21g-22h-7j-7k4m-28n-12 sure=a-6e6g-4j-7m-3 suspend=e3i-5 switch=a7o-7
system=a-9b-18c-12e-5g3h-3i-14j-12k-12m6o5 take=a8b-5c-7d-8f8g-3i-6j-10l-6m-7n-4o-13 task=d-4g5h-12i-4n-6o-3
team=e3i-6 tempera=a-12b-16c-15e-8f-7g-4i-12j-11l-10m-12o16 tempora=a-9b-6c-7d-10e-12f16g-12h-17k-6l-5m-10n-17o-12
tensor=g6 termina=a-7b-4c-10d-8e-6f-6h6j-10k-3l-4m-5n-6o-8 terms=a-12b-4c-7d5e-8g-3i7j-11k-4l-6m7o-9
test=d-4e-3f-5g-5i-8j7k-3o-8 text=a8b4c-4d-16e-14f-11g-21h4i-10j-15k-10l-19m-10
than=b7d-17e-4f-5g-11h-8i-8j-19k-3l-9m-17n-8 that=b4d-6e-9g-7h-3i-12k-11l7m4n-4o-8 the=a-4d-5e-6l10m6
there=a-7e-6f-5g-3i-4j6k-5m-5o-6 thinkin=a-16b-11c-23d-10e-15g-5h-6i-8j-22k31l-14m-18n-8o-29
this=a4b-10d-4e5f-4g-9h-11j-4k5l-4m-5n-4 thought=a-8b-8c-12d-4e-7f-7g-5i-12j-11k13l-7m-10o-12
throttl=a-13b-12c-8d16e-11g-15h-3i-14j-13k-4l-8m-9n-4o-13 through=d-6e4j3 tier=a-4c-14d-5e7f5g-9k-14l-11m-3o-16
time=b-12c-9d7e-7f-20i-8j-6k-4l-4m-4n-4o-11 timed=a-11b-8d-10e-15f-22g8h6i-15j-12k-5l-6m-8n-9o-8
timeout=a-12b-13c-5d-16e-15f-6h16i-19j-11k-9l-9m-18n-21o-15 to=a-6h-19i5l-5m4 today=d9e-10
token=a8b-33c-27d-8e-7f-19g-6h-5i16k-6l-19m-20 tokens=a22b-46c-38d-12e-6f-30g-22i-6j-21k-4l-22m-26n-5
too=b8d10e-10f-7g-20h-19i-23j-11k-11l-15m-22n-18 tool=a-8b-3c-5d-14e-14f-9g-6h-11i-17j-16k-10l16m-28n-3o4
toolcon=a-10k-5l3m-3o3 toolres=b-5c-3k-7l7m-5o-8 tools=a-17b10c-21d-13e-12f-9g-5i-11j-16k-5l-15m-10o8
tooluse=a-15b-6c-5e-3i-4j-3k-8l8m-10 top=a-10b-8c-10d-3f-4g-4i-10j-5k-12l-11m-7o12
total=b3c3d-16f-6g-12i6j-5k-7l-9m-7n-10o-16 tpm=a-6b-14c-4d16e-15f-5g-5h-5i-4j-6m-3o-3 traffic=d-10f9
trial=e5i-14m-4 trigger=d3e-4f-6 true=c-7 truncat=b-9c-5d-7e-4f-4g-9h4i-11j-8k-13l-10m-10n-7o8
try=c-3e-6f7g-3h-8j-4k-9l-5m-7n-8 trying=a-8c-4f4h-9i-5l-3n-4o-7 turn=b-5c-12d-6e-6f-10g-16i-10j-7k-14l13m6n-5o-18
type=a-13b-19c13d-4e-8f-9h-3i-12j-11k-3l-10m-12n-8o4 typeerr=c-9d-6e-4f-4g4i-9m-5n-5o-7 uminfer=i4j-5
unable=d-3e-4f4i-4m-5o-8 unautho=a-5b-5c-5d-6f-6g-7h-5i7j-7k-4l-4m-6n-7o-5
unavail=b-9c-15d-13e-13f12h-15j-7k-14l-16m4n-7o-14 und=b-4f-4g-8h8i-3 under=a-6b-13f6g-11i-5m-4o4
unexpec=a-9b-4c-6d-4e-10g15h-15i-18j-14k-5m-10n-23 unhandl=g9h-10i-3m-4n-7o-13 unique=b-6k-5l7o-3
unknown=a-15b-17c-11d-12e-3f-18g9h-15i-18j6k7l-5m-22n-13 unrecog=a-10b-3k6m-3o6
unsuppo=a-17b-14c6d-6e-11f-16g-12h-6k8l-17m-23n-6 up=a4b-7d-15e7f12h-7i-12j-12k-8l-6m-10n-10o-7 update=a4b-3
upgrade=a-5c-3d-9e11i-12j-4o-3 upload=a-11b5d-7e-5f-4i-3o-10 uploade=c5
upstrea=b-16c-12d-8g10h-10j-18k3l-12m-19n-13o5 url=b-8c7d-13e-5h-12i6j-5k-9l-6n-4o-15 us=d-8g5h-3
usage=a-11b-6c-13d-12e19f-4g-5h-4i-14j-5k-6l-5n-4o-10 use=b-15c-5e-10f-7h-11i5j-6k-3l4m-11n-7
used=a5b-4c-6d-8e6f-4g-10h-7i5k-6l-4n-8o-10 user=a-3b-21c-15f-11g-15h-10i11j-12k-16l9m-18n-16
using=b-3f-3g-4j-4m-6o-12 valid=b-5d-19f-6g-14h-3i5j3l-4n-9 validat=a5c-5d-11e-8f-6g-12h-5i3j-11k-10l-5m-10n-5
value=a-11c-8d-13e-9f-9h-9i-13j-7k8l-4m-14n3o5 valueer=a9b-12d-4e-4f-7g-7h-7i-5k-4l-4m-3n6o-13
values=a-3b-6e-5f-5g-6h-7i-9j7l-6m-3n-9o-6 verifie=c-10i-4j-4k9l-3m-8o-9 verify=d-4e-12h-3i9j-6n-4o-8
version=a-12b-5c-14e-3f-5g-4i-11k-5l-3m-6o11 video=a-17b-17c19e-6f-6g-6h-3i-5j-7k-8l-7m-14o-17
violate=a-7b-4c-4d-4e-5f-4g-9h-4i-5j-4m9n-6o-4 violati=a-8b-6c-6d-5e-6f-4g-5i-11k-5l-5m11n-4o-10
vision=a-5b6c14d-14e-6f-4g-16i-6j-15k-10l-10m-3 visit=a-3c-4e5f-3i-7j5l-3o-8
vs=a-4b4c-5d-7e-4g-4h-3i-9j-10k-9l-4n-5o9 wait=a-9b-10c-7d6g-9i-7m-4o-6
waiting=a-6b-4c-3d-7e-6f7g-10h7i-11j-5m-3o-4 warning=a10b-8c-6d-8e-8f-4g-7h-3i-4o-15
was=b-10d-10e-10f5g6h-5i-6j-7k-4l-17n-10 we=b-11c-10e-5g5k-4l-5n-7 webp=c6g-6h-3m-4o-3
websock=a-11b8c-5d-11e-3f-5i-11j-4l-4m-3n-9o-9 weekly=d-4e5 went=a-4b-5c-6d-7e-5f-5g7i-7j-4k-4l-3m-4n-5o-4
were=b-13d-3e7g-7i-6j-4k-6l-3m-4o-15 when=c-6e-5j4k7o-14 which=a-8b7c4g-5i-4j-3l-3m-6
while=b-9d-9e-4h7i-6j-5k-5m-5n-7o-10 whitesp=a-6b-9c-8k-9l-10m-9n-4o11 width=b-4c7m-4o-6 will=d-6e4o-3
window=a8b-9c-11d-7f-7g-15h-6i-7j-8k-5l-5m-8n-7 with=a-12c-10e-6f-7j-13l14m-6n-4o5
within=a-3b-4d-6e-5f-3g-11h9i-6l-4n-13o-3 without=a-9b-5c-7d-6e-5f-6h6i-6j-12l4m-11o-13
work=a-3b-3e-11g-3i6j-4k4o-6 worker=a-8b-7c-6d-8e-3f-11g10h-4i-5j-4k-3l-5m-7n-5o-4
workers=a-9b-6c-6d-7e-7f9i-6j-10k-3l-7m-7n-4o-7 workspa=b-3f-5g-4h-3i6j-11k-3l-3m-10n-4o-5
would=a3b-3c-5e-11f-6g-7i6j-4m-8n-5o-10 wrong=a-4b-5d-7e-5f-5g7i-7j-4k-4l-3m-5n-5o-4
xxx=c-5d-5e4f-4g-9i-3j6k-5l-5o-5 xxxx=f-6g4i-7j8l-3o-12 yet=a-11b-10c-11d-3e10f8g-12h-3i-12j-14k-6l-11m-10o-11
you=a-6b-8c-5d7e4f-13g-13h-9i6j-4k-3l-9n-17 your=b-9c-10e11f-15h-9i-5k-12l-7n-12o-7 youre=a-4b-3c-3d6f-4g-3o-4
youve=b-4d-6e8f-5g-5h-3i-3j-3o-5 za=l-3 已达到=a-15b-10c-10d-16e13f-7j-4k-4l-4m-6o8
请求失败=a11b-13c-8d-11e-8f-11g-7h-10i-9j-5m-6n-11o-14 输入内容过长=a13b-11c-12d-13e-11f-12g-10i-10j-14k-12l-11m-15o-14
错误=a10b-13c-14d-12e-12f-12g-10i-11j-14k-11l-11m-16
"""
