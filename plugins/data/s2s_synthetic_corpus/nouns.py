"""The nouns: English and German, gender, plural and genitive, kinds, and the prepositions for being there.

Kinds determine which verbs fit a noun: P people, A animals; F food that is counted, M food that is not, D drinks
(Q: what animals drink); B what is read (b: what is bought, N: only its words, n: what is told), W what is written;
O what is opened; S what stands and L what lies; C clothes; V vehicles; E what is switched on and off; G gifts;
I pictures; H what is built; U what is cleaned and Y what is tidied; Z what is cooked; J what is baked; K furniture;
R places; T sights; X parts of a house; u trains and buses.
A masculine noun whose genitive does not end in -s is weak: den Jungen, dem Jungen, des Jungen.
"""

from __future__ import annotations

__all__ = ["ADJECTIVES", "CITIES", "COLOURS", "NAMES", "NOUNS", "NUMBERLESS"]

NUMBERLESS = "-"
"""Takes the place of the plural of an uncountable noun."""

NOUNS = """
man       men       Mann       Männer      Mannes     m P
woman     women     Frau       Frauen      Frau       f P
child     children  Kind       Kinder      Kindes     n P
boy       boys      Junge      Jungen      Jungen     m P
girl      girls     Mädchen    Mädchen     Mädchens   n P
teacher   teachers  Lehrer     Lehrer      Lehrers    m P
doctor    doctors   Arzt       Ärzte       Arztes     m P
neighbour neighbours Nachbar   Nachbarn    Nachbarn   m P
student   students  Student    Studenten   Studenten  m P
farmer    farmers   Bauer      Bauern      Bauern     m P
king      kings     König      Könige      Königs     m P
queen     queens    Königin    Königinnen  Königin    f P
guest     guests    Gast       Gäste       Gastes     m P
brother   brothers  Bruder     Brüder      Bruders    m P
sister    sisters   Schwester  Schwestern  Schwester  f P
son       sons      Sohn       Söhne       Sohnes     m P
daughter  daughters Tochter    Töchter     Tochter    f P
aunt      aunts     Tante      Tanten      Tante      f P
uncle     uncles    Onkel      Onkel       Onkels     m P
friend    friends   Freund     Freunde     Freundes   m P
dog       dogs      Hund       Hunde       Hundes     m A
cat       cats      Katze      Katzen      Katze      f A
horse     horses    Pferd      Pferde      Pferdes    n A
bird      birds     Vogel      Vögel       Vogels     m A
mouse     mice      Maus       Mäuse       Maus       f A
cow       cows      Kuh        Kühe        Kuh        f A
goat      goats     Ziege      Ziegen      Ziege      f A
pig       pigs      Schwein    Schweine    Schweins   n A
bear      bears     Bär        Bären       Bären      m A
monkey    monkeys   Affe       Affen       Affen      m A
apple     apples    Apfel      Äpfel       Apfels     m F
pear      pears     Birne      Birnen      Birne      f F
egg       eggs      Ei         Eier        Eies       n FZ
cake      cakes     Kuchen     Kuchen      Kuchens    m FGJ
potato    potatoes  Kartoffel  Kartoffeln  Kartoffel  f FZ
sausage   sausages  Wurst      Würste      Wurst      f F
soup      soups     Suppe      Suppen      Suppe      f Z
bread     -         Brot       -           Brotes     n MJ
cheese    -         Käse       -           Käses      m M
meat      -         Fleisch    -           Fleisches  n M
water     -         Wasser     -           Wassers    n DQ
milk      -         Milch      -           Milch      f DQ
coffee    -         Kaffee     -           Kaffees    m D
tea       -         Tee        -           Tees       m D
wine      -         Wein       -           Weins      m D
juice     -         Saft       -           Saftes     m D
book      books     Buch       Bücher      Buches     n BbLG
newspaper newspapers Zeitung   Zeitungen   Zeitung    f BbL
letter    letters   Brief      Briefe      Briefes    m BLW
story     stories   Geschichte Geschichten Geschichte f NBWn
poem      poems     Gedicht    Gedichte    Gedichts   n NBW
message   messages  Nachricht  Nachrichten Nachricht  f NBW
door      doors     Tür        Türen       Tür        f OX
window    windows   Fenster    Fenster     Fensters   n OUX
suitcase  suitcases Koffer     Koffer      Koffers    m OS
box       boxes     Kiste      Kisten      Kiste      f OS
bottle    bottles   Flasche    Flaschen    Flasche    f OS
glass     glasses   Glas       Gläser      Glases     n S
cup       cups      Tasse      Tassen      Tasse      f S
plate     plates    Teller     Teller      Tellers    m S
lamp      lamps     Lampe      Lampen      Lampe      f SE
radio     radios    Radio      Radios      Radios     n SE
computer  computers Computer   Computer    Computers  m E
key       keys      Schlüssel  Schlüssel   Schlüssels m L
knife     knives    Messer     Messer      Messers    n L
spoon     spoons    Löffel     Löffel      Löffels    m L
ball      balls     Ball       Bälle       Balles     m LG
ring      rings     Ring       Ringe       Ringes     m LG
flower    flowers   Blume      Blumen      Blume      f G
picture   pictures  Bild       Bilder      Bildes     n GI
hat       hats      Hut        Hüte        Hutes      m C
coat      coats     Mantel     Mäntel      Mantels    m C
dress     dresses   Kleid      Kleider     Kleides    n C
shirt     shirts    Hemd       Hemden      Hemdes     n C
jacket    jackets   Jacke      Jacken      Jacke      f C
car       cars      Auto       Autos       Autos      n VU
bicycle   bicycles  Fahrrad    Fahrräder   Fahrrads   n VU
ship      ships     Schiff     Schiffe     Schiffes   n VH
train     trains    Zug        Züge        Zuges      m u
bus       buses     Bus        Busse       Busses     m u
table     tables    Tisch      Tische      Tisches    m K on:auf
chair     chairs    Stuhl      Stühle      Stuhls     m K on:auf
bed       beds      Bett       Betten      Bettes     n K on:auf
cupboard  cupboards Schrank    Schränke    Schranks   m KY in:in
house     houses    Haus       Häuser      Hauses     n RH in:in
garden    gardens   Garten     Gärten      Gartens    m RX in:in
kitchen   kitchens  Küche      Küchen      Küche      f RUXY in:in
room      rooms     Zimmer     Zimmer      Zimmers    n RY in:in
roof      roofs     Dach       Dächer      Daches     n X
school    schools   Schule     Schulen     Schule     f RHT in:in
hotel     hotels    Hotel      Hotels      Hotels     n RH in:in
city      cities    Stadt      Städte      Stadt      f RT in:in
village   villages  Dorf       Dörfer      Dorfes     n RT in:in
forest    forests   Wald       Wälder      Waldes     m R in:in
park      parks     Park       Parks       Parks      m R in:in
museum    museums   Museum     Museen      Museums    n RT in:in
church    churches  Kirche     Kirchen     Kirche     f RHT in:in
office    offices   Büro       Büros       Büros      n RY in:in
street    streets   Straße     Straßen     Straße     f R on:auf
bridge    bridges   Brücke     Brücken     Brücke     f RH on:auf
market    markets   Markt      Märkte      Marktes    m R at:auf
station   stations  Bahnhof    Bahnhöfe    Bahnhofs   m R at:an
lake      lakes     See        Seen        Sees       m R by:an
river     rivers    Fluss      Flüsse      Flusses    m R by:an
"""

# English, its comparative, German, its stem before an ending, its comparative, the kinds that it fits.
ADJECTIVES = """
old         older      alt         alt         älter         PABLSCVEOKRHTGIuX
young       younger    jung        jung        jünger        PA
small       smaller    klein       klein       kleiner       PAFSLCVOKRHGIX
big         bigger     groß        groß        größer        PAFSCVOKRHGIEuX
tired       more       müde        müd         müder         PA
hungry      hungrier   hungrig     hungrig     hungriger     PA
happy       happier    glücklich   glücklich   glücklicher   P
sad         sadder     traurig     traurig     trauriger     PN
clever      cleverer   klug        klug        klüger        PA
lazy        lazier     faul        faul        fauler        PA
friendly    friendlier freundlich  freundlich  freundlicher  P
strong      stronger   stark       stark       stärker       PA
rich        richer     reich       reich       reicher       P
poor        poorer     arm         arm         ärmer         P
famous      more       berühmt     berühmt     berühmter     PTI
new         newer      neu         neu         neuer         LSCVEOKRHTGINBuX
beautiful   more       schön       schön       schöner       CVRHTGISN
ugly        uglier     hässlich    hässlich    hässlicher    CVSKI
expensive   more       teuer       teur        teurer        CVESLKGIFMD
cheap       cheaper    billig      billig      billiger      CVESLKFMD
heavy       heavier    schwer      schwer      schwerer      OSK
long        longer     lang        lang        länger        BN
interesting more       interessant interessant interessanter BNIT
clean       cleaner    sauber      sauber      sauberer      SCUKY
dirty       dirtier    schmutzig   schmutzig   schmutziger   SCUKY
good        better     gut         gut         besser        FMDZBVTRX
bad         worse      schlecht    schlecht    schlechter    FMDZBR
fresh       fresher    frisch      frisch      frischer      FMQ
cold        colder     kalt        kalt        kälter        DZ
warm        warmer     warm        warm        wärmer        CDZZ
sweet       sweeter    süß         süß         süßer         F
quiet       quieter    ruhig       ruhig       ruhiger       RT
dark        darker     dunkel      dunkl       dunkler       RY
modern      more       modern      modern      moderner      HTEu
"""

COLOURS = """
red    rot     SLCVK
blue   blau    SLCVK
green  grün    SCVK
yellow gelb    SCV
black  schwarz ASLCVK
white  weiß    ASCVK
brown  braun   AKC
"""

NAMES = (
    "Anna",
    "Maria",
    "Lena",
    "Julia",
    "Sara",
    "Emma",
    "Peter",
    "Paul",
    "Martin",
    "Jakob",
    "Simon",
    "David",
)  # none ends in -s: Annas, Pauls
CITIES = (
    ("Berlin", "Berlin"), ("Hamburg", "Hamburg"), ("Vienna", "Wien"), ("Munich", "München"), ("Cologne", "Köln"),
    ("Rome", "Rom"), ("Paris", "Paris"), ("London", "London"),
)  # fmt: skip
