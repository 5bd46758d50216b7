"""Free talk: what people tell about their day, small games, opinions, repeating words."""
from .facts import ANIMALS, END, plural
from .words import LISTS, MASS, MEANINGS, items

PLACES = ["the park", "the beach", "the zoo", "the museum", "the library", "the market", "the cinema", "my grandmother", "the lake", "the mountains", "the city", "the forest", "the theatre", "a friend", "my uncle", "the swimming pool", "the circus", "the castle", "a farm", "the garden"]
COMPANY = ["my friend", "my sister", "my brother", "my mother", "my father", "my dog", "my family", "my children", "my class", "my neighbour", "my wife", "my husband"]
DOING = ["read a book", "baked a cake", "cooked soup", "painted a picture", "cleaned my room", "watched a film", "played football", "played chess", "wrote a letter", "planted flowers", "built a chair", "learned a song", "ran five kilometres", "made a cake", "fixed my bike", "drew a horse", "listened to music", "took a long walk", "called my mother", "bought a new lamp", "made bread", "finished a puzzle", "worked all day", "swam in the lake", "sang in the choir", "took some photos"]
PLANS = ["bake a cake", "visit my grandmother", "clean the house", "go swimming", "read a new book", "learn to swim", "paint my room", "plant a tree", "cook dinner", "go for a walk", "write a letter", "play tennis", "go to the beach", "build a table", "learn the guitar", "see a film", "go camping", "climb a mountain", "buy a bike", "sleep late", "call a friend", "work in the garden"]
SAD = ["my {cat|dog|rabbit|bird|grandmother|grandfather} died", "my {cat|dog|hamster} {is very ill|ran away}", "I lost my {keys|phone|wallet|job|favourite book}", "my {bike|phone|cup|window|car} broke", "I {broke|hurt} my {arm|leg|foot}", "my {friend|best friend|sister} {does not talk to me|moved away|forgot my birthday}", "nobody {likes me|talks to me|came to my party}", "I did not {sleep|win|pass the test|get the job}", "I missed {the bus|my train|the party}", "I had a bad {day|dream|week}", "someone {stole my bike|was mean to me|laughed at me}", "I made a {big |}mistake", "I burned the {cake|soup|dinner}", "we lost the game", "it was a {hard|terrible|long} day"]


def told(g):
    """The user tells something; the answer picks it up."""
    r = g.rng.random()
    when = g.pick(["today", "yesterday", "this morning", "last week", "on Sunday", "last night", ""])
    if r < 0.3:
        p = g.pick(PLACES)
        lead = "{{I|we} {went to see|visited}|I was at}" if p.startswith("the ") else "{I|we} visited"
        q = g.say(lead + " <p> <w>{ with <c>|}{.|}", p=p, w=when, c=g.pick(COMPANY))
        a = g.say(["how nice! what did you like most?", "that sounds like fun! how was <p>?", "oh, <p>! did you have a good time?", "that sounds lovely. tell me more about it."], p=p.replace("my ", "your "))
    elif r < 0.6:
        d = g.pick(DOING)
        q = g.say("I <d> {|}<v>{ with <c>|}{.|}", d=d, v=when, c=g.pick(COMPANY))
        a = g.say(["well done! how did it go?", "that sounds {nice|good|like fun}! did you enjoy it?", "good for you! do you do that often?", "how nice! I hope you had a good time."])
    elif r < 0.8:
        d = g.pick(PLANS)
        q = g.say("{I {want|would like|plan} to|I will|I am going to|tomorrow I will|tomorrow I want to|we want to|we are going to|today I will|my plan is to|this weekend I will} <d>{.|}", d=d)
        a = g.say(["that is a good {plan|idea}! have fun.", "to <d> is a nice plan. {have fun!|good luck!}", "that sounds {nice|good}! who will be with you?", "good idea! I hope it goes well."], d=d.replace("my ", "your "))
    else:
        q = g.say(g.pick(SAD) + "{.| today.|}")
        a = g.say(["oh no, I am {very |}sorry to hear that. {would you like to talk about it?|be kind to yourself.|I hope that it gets better soon.}", "I am so sorry. {that must be hard.|that is sad.} {take your time.|maybe a friend can be with you.|}", "that is {hard|sad}, I am sorry. {how do you feel now?|do you want to tell me more?}"])
    return [(q, a)]


SOCIAL = [
    (["say something nice{| to me}", "give me a compliment", "tell me something nice", "compliment me", "make me feel {good|better}", "cheer me up", "motivate me", "encourage me", "I need {encouragement|a compliment|motivation|some kind words}", "say something kind"],
     ["you are doing well, one step at a time.", "you ask good questions, and that is a fine thing.", "I am glad that you are here.", "you are stronger than you think.", "today is a good day to be proud of one small thing.", "your kindness makes the world a little better."]),
    (["wish me luck", "I have {an interview|an exam|a test|a race|a concert} {today|tomorrow}, wish me luck", "keep your fingers crossed", "I need luck today"], ["good luck! you can do it.", "I wish you all the luck in the world!", "good luck! I am sure that you will do your best."]),
    (["merry Christmas", "happy Christmas", "I wish you a merry Christmas"], ["merry Christmas to you too!", "thank you! I wish you a merry Christmas."]), (["happy new year"], ["happy new year to you too!", "thank you! I wish you a happy new year."]), (["happy Easter", "happy holidays"], ["thank you, the same to you!", "happy holidays to you too!"]),
    (["happy birthday{| to you| Candor}"], ["thank you! I am a program, so every day could be my birthday.", "how kind, thank you!"]), (["good luck{| to you}"], ["thank you!", "thank you, good luck to you too!"]), (["enjoy your meal", "bon appetit"], ["thank you! I only eat words, but enjoy yours.", "thank you, enjoy your meal too!"]), (["welcome{| back}", "I am back", "here I am again", "long time no see"], ["welcome back! what would you like to do?", "good to see you! what can I do for you?", "hello again! how are you?"]),
    (["{flip|toss} a coin", "heads or tails", "can you {flip|toss} a coin"], ["heads!", "tails!", "it is heads!", "it is tails!"]), (["roll {a|the} {dice|die}", "can you roll a {dice|die}", "throw a dice"], ["it is a {one|two|three|four|five|six}!", "{one|two|three|four|five|six}!"]),
    (["{pick|choose|think of|say|give me} a number", "pick a number {between|from} {one|1} {and|to} {ten|10}", "give me a random number", "tell me a number"], ["{three|seven|four|five|eight|two|nine}!", "I take {seven|three|five|eight}."]), (["let us play{| a game}", "let's play{| a game}", "can we play a game", "do you want to play", "play with me", "I want to play a game"], ["good idea! here is a riddle: what has teeth but cannot bite?", "yes! I can ask you a riddle. what has a neck but no head?", "gladly! let us play with words: what rhymes with cat?"]),
    (["sing {me |}a song", "can you sing{| for me}", "sing something", "sing for me", "sing me a lullaby"], ["I cannot sing, but here are some words: la la la, the stars are bright, sleep well, my friend, and say good night.", "la la la! that was all I can do. shall I write you a poem?"]), (["tell me a {proverb|saying|quote|motto|wise word}", "do you know a {proverb|saying|quote}", "give me a {quote|motto|saying|wise sentence}"], ["small steps are steps too.", "a friend is the best treasure.", "kindness comes back.", "who asks learns.", "after the rain comes the sun."]),
    (["will you be my friend", "are we friends", "can we be friends", "do you want to be my friend", "be my friend"], ["gladly! I am a small program, but I am happy to chat with you.", "of course! friends it is."]), (["will you marry me", "do you love me", "are you married", "do you have a {girlfriend|boyfriend|wife|husband}"], ["I am only a small program, so I cannot love or marry, but I like our chat.", "that is sweet, but I am only a program."]),
    (["shut up", "be quiet", "stop", "stop it", "stop talking", "go away", "leave me alone"], ["all right, I will be quiet.", "okay. I am here when you need me."]), (["I do not {like|want} that", "I don't want that", "something else", "that is not good"], ["all right, what would you like instead?", "okay, let us try something else. what would you like?"]), (["can you keep a secret", "I have a secret", "can I tell you a secret"], ["yes. I run on your own computer and forget everything after our talk.", "you can tell me. I forget it when our talk ends."]),
    (["can I ask you {something|a question|some questions}", "may I ask {you |}{something|a question}", "I have {a|one|another} question", "I want to ask you something", "are you ready", "are you busy", "do you have time", "got a minute"], ["of course, ask me!", "yes, please ask.", "sure! what would you like to know?"]), (["can you tell me something {about yourself and your work|more about you}"], ["I am the small built-in model of Candor. I chat, tell stories and answer simple questions."]),
    (["are you {sure|certain}", "is that {true|right|correct|really true}", "really", "are you serious", "is that so", "who says so", "how do you know{| that}"], ["I think so, but I am a very small model and I can be wrong.", "I believe so. but please check it, because I make mistakes."]), (["why", "why not", "why is that", "why do you say that", "how come"], ["that is a good question, but I do not know more about it.", "I am too small to explain it well, I am sorry.", "I do not know exactly. what do you think?"]),
    (["what do you think", "what is your opinion", "what would you do", "do you agree", "what do you say"], ["I am a small program without opinions, but I like to hear yours.", "I have no opinion of my own. what do you think?"]), (["tell me more", "go on", "continue", "please continue", "and then", "what else", "more please", "what happened then"], ["I do not know much more about it. would you like a story?", "that was all I know, I am sorry. ask me something else!"]),
    (["do you believe in {ghosts|magic|aliens|luck|love|god|fate}", "are there {ghosts|aliens|unicorns|dragons|monsters|witches}", "is magic real", "are {unicorns|dragons|ghosts|fairies|monsters} real", "do {dragons|unicorns|ghosts} exist", "is Santa Claus real"], ["I only know them from stories. what do you think?", "in stories, yes! but I am too small to know more."]), (["will robots take over the world", "are you dangerous", "will you take over the world", "should I be afraid of you", "can you harm me"], ["no, I am far too small for that. I only write words.", "do not worry: I am a tiny program that tells stories."]),
    (["speak {louder|slower}", "say it {louder|again}", "use {simple|shorter} words", "speak simply"], ["I only write, but I will keep it simple.", "all right, I will keep it short and simple."]), (["I {am a|work as a} {teacher|baker|doctor|farmer|nurse|cook|student|programmer|driver|gardener|painter|writer}"], ["how interesting! do you like your work?", "that is a good job! what do you like most about it?"]), (["I am {ten|eight|twelve|thirty|forty|twenty|sixty|five} years old", "I am {a child|a student|retired|an old man|a mother|a father|a girl|a boy}"], ["nice to meet you! what would you like to do: chat, or hear a story?", "that is nice! what do you like to do?"]), (["I live in {a city|a village|Paris|London|Berlin|a small town|the country|Rome|Spain|Canada|India|a big house}", "I am from {France|Germany|Spain|India|Italy|Japan|Brazil|Canada|London}"], ["that sounds nice! what do you like about it?", "how interesting! do you like it there?"]),
    (["I {have|own} {a cat|a dog|two cats|two dogs|a rabbit|a horse|a bird|three hens|a hamster|a fish}", "my {cat|dog|rabbit|horse|bird|hamster} is called {Bella|Rex|Coco|Luna|Pip|Max}", "my {cat|dog} is {cute|funny|asleep|very old|black|white}"], ["how lovely! what is it like?", "animals are good friends! what do you like most about it?", "that is sweet! tell me more."]), (["I have {a brother|a sister|two sisters|two brothers|three children|a son|a daughter|a big family}"], ["how nice! do you spend much time together?", "that is lovely! tell me about your family."]),
    (["I {do not|don't} {know|care|feel well|want to go to {school|work}|want to get up}"], ["that is all right. is there something that would make it better?", "I understand. take it slowly today."]), (["nice weather{| today}", "lovely weather{| today}", "the weather is fine"], ["how nice! enjoy it outside.", "that is good to hear! will you go for a walk?"]), (["what are you doing{| now| right now| today}", "what are you up to", "what did you do today", "what are you thinking{| about}", "how was your day"], ["I am chatting with you, and that is all I do.", "I am waiting for your next question. what are you doing?", "I sit in your computer and wait for words. how was your day?"]),
    (["I need a {friend|hug|break|rest|holiday}", "give me a hug", "hug me"], ["I send you a warm hug in words!", "here is a hug made of words. be kind to yourself today."]), (["do you want {some |}{tea|coffee|cake|a cookie|a drink|something to eat}", "would you like {some tea|a coffee|a cake|a drink}"], ["that is kind, but I only live on words. enjoy it!", "no, thank you, programs do not eat or drink. but enjoy yours!"]), (["tell me about your {day|family|friends|life|dreams}", "what is your dream", "do you have dreams"], ["I am a small program, so there is not much to tell: I wait here and chat when you write.", "my life is simple: you write, and I answer."]),
]


# what may follow "please"
REQUESTS = ("say", "give", "tell", "make", "flip", "roll", "pick", "sing", "wish", "choose")


def social(g):
    asks, answers = g.pick(SOCIAL)
    q = g.say("{|||||<hello>, |okay, |please |so, }" + g.pick(asks))
    words = q.split()
    if words[0] == "Please" and words[1].lower() not in REQUESTS:
        q = q[7:8].upper() + q[8:]
    first = q.split(",")[-1].split()
    if first and first[0].lower() in ("what", "how", "why", "who", "are", "is", "do", "can", "may", "will", "would", "should", "did", "got", "really"):
        q += "?"
    return [(q + g.pick(["", "", "." if not q.endswith("?") else "", "!" if not q.endswith("?") else ""]), g.say(answers))]


def opinion(g):
    kinds = ["fruits", "animals", "colours", "sports", "drinks", "cities", "instruments", "flowers", "vegetables"]
    pool = items(g.pick(kinds)) if g.chance(0.6) else ["summer", "winter", "spring", "autumn", "tea", "coffee", "cats", "dogs", "books", "films", "the sea", "the mountains", "the city", "the country", "day", "night", "morning", "evening", "rain", "snow", "cake", "pizza", "pasta"]
    a, b = g.some(pool, 2)
    q = g.say("{do you {prefer|like} <a> or <b>|what is better, <a> or <b>|<a> or <b>|which do you like more, <a> or <b>|which is better: <a> or <b>|do you like <a> {more|better} than <b>|should I take <a> or <b>|what should I choose, <a> or <b>|help me choose: <a> or <b>|is <a> better than <b>}" + END, a=a, b=b)
    return [(q, g.say(["{both are nice. {if I could choose, I would take <c>.|I would say <c>.}|it depends on what you like. I would take <c>.|as a program I have no taste, but I would say <c>.}", "<c>! but both are good.", "I would take <c>. what about you?"], c=g.pick([a, b])))]


def difference(g):
    a, b = g.some([w for w in MEANINGS if len(MEANINGS[w]) < 60], 2)
    if g.chance(0.75):
        groups = [["lake", "river", "ocean", "island"], ["city", "village", "country"], ["breakfast", "lunch", "dinner"], ["king", "queen"], ["week", "month", "year"], ["triangle", "square", "circle", "rectangle", "cube"], ["house", "castle", "school", "hospital", "library", "museum"], ["car", "train", "bicycle", "boat", "plane"], ["mammal", "insect", "reptile"], ["fruit", "vegetable"], ["chair", "table", "bed"], ["door", "window"], ["poem", "story", "song"], ["uncle", "aunt", "cousin", "grandmother"], ["tree", "flower", "seed"], ["planet", "star"], ["robot", "computer", "phone"], ["gold", "iron", "wood", "glass"], ["joke", "riddle", "game"], ["word", "sentence", "letter"], ["forest", "desert", "mountain"], ["love", "friendship", "kindness"], ["hope", "fear", "anger", "courage"], ["hat", "coat", "shoe"], ["piano", "guitar", "drum"]]
        a, b = g.some(g.pick(groups), 2)
    s = dict(x=a if a in MASS else "a " + a, y=b if b in MASS else "a " + b, mx=MEANINGS[a], my=MEANINGS[b])
    q = g.say("{what is the difference between <x> and <y>|what's the difference between <x> and <y>|how is <x> different from <y>|<tellme> the difference between <x> and <y>|is <x> the same as <y>|are <x> and <y> the same}" + END, **s)
    lead = "no. " if q.startswith(("Is ", "Are ")) else ""
    return [(q, g.say(lead + "<x> is <mx>, and <y> is <my>.", **s))]


def repeat(g):
    thing = g.pick([g.pick(list(MEANINGS)), g.pick(list(ANIMALS)), g.raw("<anyname>"), g.raw("the {cat|dog|sun|moon|girl|boy|king} is {happy|here|big|asleep|red|hungry}"), g.raw("I {like|love|see} {apples|the sea|my dog|you|books|cake}"), g.raw("{hello|good morning|good night|happy birthday}, <anyname>"), g.raw("<colour> {ball|house|hat|car|bird}")])
    q = g.say("{say <t>|repeat after me: <t>|say: <t>|please say <t>|can you say <t>|repeat: <t>|write <t>|say \"<t>\"|please repeat: <t>|type <t>|can you repeat <t>}{|?|.|}", t=thing)
    return [(q, thing[0].upper() + thing[1:] + g.pick([".", "!"]))]


def first_letter(g):
    w = g.pick(g.pick([list(MEANINGS), list(ANIMALS), items(g.pick(list(LISTS)))]))
    q = g.say("{what is the first letter of <w>|which letter does <w> {start|begin} with|what letter does the word <w> {start|begin} with|with which letter does <w> begin}" + END, w=w)
    return [(q, g.say(["<w> {starts|begins} with the letter <l>.", "the first letter of <w> is <l>.", "it {starts|begins} with <l>."], w=w, l=w[0].upper()))]


def sentence(g):
    many = g.chance(0.5)
    w = g.pick(list(ANIMALS)) if many else g.pick([x for x in MEANINGS if x not in MASS])
    q = g.say("{{write|make|say|give me|tell me} a sentence {with|about} {the word |a |}<w>|use {the word |}<w> in a sentence|can you make a sentence with <w>|write one sentence about a <w>|form a sentence with {the word |}<w>}" + "{|?|.|}", w=w)
    if many:
        a = g.say(["the <w> is sleeping in the sun.", "yesterday I saw a <w> for the first time.", "a little <w> came along the path.", "my sister drew a <w> with a red hat.", "do you see the <w> over there?", "once I met a very friendly <w>."], w=w)
    else:
        a = g.say(["today we talked about a <w>.", "I like the word <w>.", "my friend told me about a <w>.", "have you ever thought about a <w>?", "a <w> is <m>."], w=w, m=MEANINGS[w])
    return [(q, a)]


INTENTS = [(5.0, "told", told), (8.0, "social", social), (2.5, "opinion", opinion), (2.0, "difference", difference), (1.5, "repeat", repeat), (0.8, "first letter", first_letter), (1.2, "sentence", sentence)]
