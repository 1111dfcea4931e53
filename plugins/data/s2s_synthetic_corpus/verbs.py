"""The verbs: English and German principal parts, kinds of subjects and objects, and adverbials.

English: base, third person, past, participle, -ing, and a particle after +. German: infinitive (| after a separable
prefix), and for strong verbs third person, past, participle (without the prefix); `ist` where the perfect takes sein.
Frames: i alone; a accusative, d dative (and the English preposition, if it has one); g somebody something; p with a
preposition; to direction; at place; put; that, whether, inf: clauses. Capitals: kinds of objects (see nouns).
Marks: s no progressive form, t a lasting state; p can be said with a place, f with a piece of furniture, m quickly or
slowly, l quietly or loudly, c carefully; v by car: not into a room; k also says where from.
"""

from __future__ import annotations

__all__ = ["CLAUSE_VERBS", "VERBS"]

VERBS = """
sleep sleeps slept slept sleeping       ; schlafen schläft schlief geschlafen       ; PA ; i            ; p
laugh laughs laughed laughed laughing   ; lachen                                    ; P  ; i            ; l
sing sings sang sung singing            ; singen singt sang gesungen                ; P  ; i            ; pl
dance dances danced danced dancing      ; tanzen                                    ; P  ; i            ; p
work works worked worked working        ; arbeiten                                  ; P  ; i            ; p
cry cries cried cried crying            ; weinen                                    ; P  ; i            ; l
play plays played played playing        ; spielen                                   ; PA ; i            ; p
swim swims swam swum swimming           ; schwimmen schwimmt schwamm ist geschwommen; PA ; i            ; m
get gets got got getting +up            ; auf|stehen steht stand ist gestanden      ; P  ; i            ; m
wake wakes woke woken waking +up        ; auf|wachen ist                            ; PA ; i            ; s
come comes came come coming +back       ; zurück|kommen kommt kam ist gekommen      ; PA ; i            ;
arrive arrives arrived arrived arriving ; an|kommen kommt kam ist gekommen          ; P  ; i            ; s
hide hides hid hidden hiding            ; sich verstecken                           ; PA ; i            ; p
rest rests rested rested resting        ; sich aus|ruhen                            ; PA ; i            ; p
hurry hurries hurried hurried hurrying  ; sich beeilen                              ; P  ; i            ;
see sees saw seen seeing                ; sehen sieht sah gesehen                   ; PA ; a PACVLSIu   ; sp
hear hears heard heard hearing          ; hören                                     ; PA ; a PA         ; sp
know knows knew known knowing           ; kennen kennt kannte gekannt               ; P  ; a PBNT       ; st
love loves loved loved loving           ; lieben                                    ; P  ; a PA         ; st
like likes liked liked liking           ; mögen mag mochte gemocht                  ; P  ; a PABNTIMD   ; st
look looks looked looked looking        ; suchen                                    ; PA ; a PALC for   ; f
find finds found found finding          ; finden findet fand gefunden               ; P  ; a ALCG       ; sf
buy buys bought bought buying           ; kaufen                                    ; P  ; a FMDbCVEKS  ; m
sell sells sold sold selling            ; verkaufen                                 ; P  ; a FMVEKSI    ;
read reads read read reading            ; lesen liest las gelesen                   ; P  ; a BBN        ; pl
write writes wrote written writing      ; schreiben schreibt schrieb geschrieben    ; P  ; a W          ; pmc
eat eats ate eaten eating               ; essen isst aß gegessen                    ; P  ; a FM         ; pm
eat eats ate eaten eating               ; fressen frisst fraß gefressen             ; A  ; a FM         ; pm
drink drinks drank drunk drinking       ; trinken trinkt trank getrunken            ; P  ; a D          ; m
drink drinks drank drunk drinking       ; trinken trinkt trank getrunken            ; A  ; a Q          ; m
cook cooks cooked cooked cooking        ; kochen                                    ; P  ; a Z          ;
bake bakes baked baked baking           ; backen backt backte gebacken              ; P  ; a J          ;
open opens opened opened opening        ; auf|machen                                ; P  ; a OO         ; mlc
close closes closed closed closing      ; zu|machen                                 ; P  ; a OO         ; mlc
call calls called called calling        ; an|rufen ruft rief gerufen                ; P  ; a P          ; s
invite invites invited invited inviting ; ein|laden lädt lud geladen                ; P  ; a P          ;
pick picks picked picked picking +up    ; ab|holen                                  ; P  ; a P          ;
bring brings brought brought bringing +along ; mit|bringen bringt brachte gebracht  ; P  ; a GFD        ;
take takes took taken taking +along     ; mit|nehmen nimmt nahm genommen            ; P  ; a LCPA       ;
throw throws threw thrown throwing +away ; weg|werfen wirft warf geworfen           ; P  ; a LCb        ;
carry carries carried carried carrying  ; tragen trägt trug getragen                ; P  ; a SLO        ; mc
wash washes washed washed washing       ; waschen wäscht wusch gewaschen            ; P  ; a CVA        ; pmc
clean cleans cleaned cleaned cleaning   ; putzen                                    ; P  ; a U          ; mc
tidy tidies tidied tidied tidying +up   ; auf|räumen                                ; P  ; a Y          ; m
put puts put put putting +on            ; an|ziehen zieht zog gezogen               ; P  ; a C          ; m
take takes took taken taking +off       ; aus|ziehen zieht zog gezogen              ; P  ; a C          ; m
turn turns turned turned turning +on    ; ein|schalten                              ; P  ; a E          ;
turn turns turned turned turning +off   ; aus|schalten                              ; P  ; a E          ;
repair repairs repaired repaired repairing ; reparieren                             ; P  ; a VE         ; pmc
paint paints painted painted painting   ; malen                                     ; P  ; a AI         ; pmc
build builds built built building       ; bauen                                     ; P  ; a H          ;
visit visits visited visited visiting   ; besuchen                                  ; P  ; a PT         ;
meet meets met met meeting              ; treffen trifft traf getroffen             ; P  ; a P          ; p
watch watches watched watched watching  ; beobachten                                ; PA ; a PA         ; plc
catch catches caught caught catching    ; fangen fängt fing gefangen                ; A  ; a A          ; p
forget forgets forgot forgotten forgetting ; vergessen vergisst vergaß vergessen    ; P  ; a LCG        ; s
lose loses lost lost losing             ; verlieren verliert verlor verloren        ; P  ; a LC         ; s
need needs needed needed needing        ; brauchen                                  ; P  ; a LSCEM      ; st
understand understands understood understood understanding ; verstehen versteht verstand verstanden ; P ; a PN ; s
help helps helped helped helping        ; helfen hilft half geholfen                ; P  ; d P          ; p
thank thanks thanked thanked thanking   ; danken                                    ; P  ; d P          ; s
answer answers answered answered answering ; antworten                              ; P  ; d P          ; ml
follow follows followed followed following ; folgen ist                             ; PA ; d PA         ; ml
trust trusts trusted trusted trusting   ; vertrauen                                 ; P  ; d P          ; st
listen listens listened listened listening ; zu|hören                               ; P  ; d P to       ;
wait waits waited waited waiting        ; warten                                    ; P  ; p PPu for auf acc ; p
talk talks talked talked talking        ; sprechen spricht sprach gesprochen        ; P  ; p PABT about über acc ; pl
think thinks thought thought thinking   ; denken denkt dachte gedacht               ; P  ; p PAT of an acc ; s
dream dreams dreamed dreamed dreaming   ; träumen                                   ; P  ; p PATV of von dat ; s
give gives gave given giving            ; geben gibt gab gegeben                    ; P  ; g GLbFD      ;
show shows showed shown showing         ; zeigen                                    ; P  ; g GCVLW      ;
send sends sent sent sending            ; schicken                                  ; P  ; g WG         ;
bring brings brought brought bringing   ; bringen bringt brachte gebracht           ; P  ; g GLFMD      ;
lend lends lent lent lending            ; leihen leiht lieh geliehen                ; P  ; g VLCb       ; s
tell tells told told telling            ; erzählen                                  ; P  ; g n          ;
go goes went gone going                 ; gehen geht ging ist gegangen              ; P  ; to           ; ml
drive drives drove driven driving       ; fahren fährt fuhr ist gefahren            ; P  ; to           ; mcv
run runs ran run running                ; rennen rennt rannte ist gerannt           ; PA ; to           ;
come comes came come coming             ; kommen kommt kam ist gekommen             ; P  ; to           ; k
live lives lived lived living           ; wohnen                                    ; P  ; at           ; st
stay stays stayed stayed staying        ; bleiben bleibt blieb ist geblieben        ; PA ; at           ;
sit sits sat sat sitting                ; sitzen sitzt saß gesessen                 ; PA ; at           ;
stand stands stood stood standing       ; stehen steht stand gestanden              ; PA ; at           ;
put puts put put putting                ; stellen                                   ; P  ; put S        ; c
put puts put put putting                ; legen                                     ; P  ; put L        ; c
"""

CLAUSE_VERBS = """
say says said said saying               ; sagen                                     ; P  ; that         ; s
believe believes believed believed believing ; glauben                              ; P  ; that         ; s
know knows knew known knowing           ; wissen weiß wusste gewusst                ; P  ; that         ; s
think thinks thought thought thinking   ; denken denkt dachte gedacht               ; P  ; that         ; s
ask asks asked asked asking             ; fragen                                    ; P  ; whether      ; s
know knows knew known knowing           ; wissen weiß wusste gewusst                ; P  ; whether      ; s
try tries tried tried trying            ; versuchen                                 ; P  ; inf          ;
hope hopes hoped hoped hoping           ; hoffen                                    ; P  ; inf          ;
promise promises promised promised promising ; versprechen verspricht versprach versprochen ; P ; inf ;
begin begins began begun beginning      ; beginnen beginnt begann begonnen          ; P  ; inf          ; s
decide decides decided decided deciding ; beschließen beschließt beschloss beschlossen ; P ; inf        ; s
forget forgets forgot forgotten forgetting ; vergessen vergisst vergaß vergessen    ; P  ; inf          ; s
"""
