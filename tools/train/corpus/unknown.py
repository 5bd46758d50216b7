"""Questions that are too hard: the model should say so and name the topic."""
from .lexicon import BOYS, GIRLS

SYL = ("ba be bo da de do fa fe fi ga ge go ka ke ki ko la le li lo ma me mi mo na ne ni no pa pe po ra re ri ro sa se si so ta te ti to va ve vi vo "
       "za ze zo tra bri klo gru sto plen dor mar ven til shi chu qua lin ton berg ford holm wick dale stan land burg gor nix").split()
TOPICS = """quantum physics|the stock market|black holes|chess openings|the history of Rome|jazz music|opera|modern art|gardening in Iceland|the Roman empire|economics|philosophy|blockchain|bitcoin|machine learning|neural networks
genetics|the French revolution|the second world war|the moon landing|climate change|politics|tax law|chemistry|algebra|calculus|geometry proofs|baroque music|Greek myths|the Vikings|dinosaurs|volcano types|the deep sea|satellites
nuclear energy|solar panels|electric cars|cooking with saffron|French wine|sushi|yoga|marathon running|the Olympic games|the world cup|baseball rules|cricket|rugby|golf|fashion|perfume|architecture|Gothic churches|photography|film history
video games|board game design|Linux|Rust|Python|C++|databases|web design|cloud servers|encryption|compilers|the periodic table|antibiotics|vaccines|the human genome|psychology|Freud|Kant|Plato|Buddhism|the Silk Road|the Aztecs|the Inca
Napoleon|Cleopatra|Julius Caesar|Marie Curie|Charles Darwin|Beethoven|Bach|Picasso|Van Gogh|Tolstoy|Dostoevsky|Hemingway|Kafka|the Beatles|Elvis|reggae|hip hop|ballet|insurance|mortgages|interest rates|inflation|world trade|banking
hurricanes|plate tectonics|coral reefs|glaciers|rare minerals|meteorites|Mars missions|string theory|relativity|thermodynamics|optics|acoustics|statistics|number theory|topology|set theory|logic|linguistics|Sanskrit|Latin grammar|Old English
sailing knots|horse racing|beekeeping|cheese types|coffee roasting|tea ceremonies|bonsai trees|origami|knitting patterns|carpentry joints|car engines|train timetables|flight prices|visa rules|passport rules|marketing|accounting|patents""".replace("\n", "|").split("|")
PEOPLE = ["the president", "the king of Spain", "the mayor of my town", "my neighbour", "my boss", "my teacher", "the prime minister", "your neighbour", "the queen", "the richest man in the world", "my grandfather", "the best singer", "the world champion", "the winner of the cup"]

NO_CLUE = ["I am sorry, I do not know {much|anything|enough} about <x>. I am a very small model.", "I am a very small model, and I do not know {much|enough} about <x>.", "that is too {hard|much} for me: I know almost nothing about <x>. {a bigger model could help you.|a bigger model in Candor may know more.}",
           "<x>? I am afraid that I do not know {much|enough} about that.", "I do not know much about <x>. {ask me something simpler, or ask for a story.|I am only a small model.}"]
NO = ["I am a very small model, I do not know that.", "I am sorry, I do not know that. {I am only a small model.|a bigger model may know it.}", "that is too hard for me. {I am a very small model.|maybe a bigger model in Candor can help.}", "I do not know. I am only a very small model."]


def invented(g):
    word = "".join(g.pick(SYL) for _ in range(g.rng.choice([2, 2, 3])))
    return word.capitalize() if g.chance(0.6) else word


def about(g):
    r = g.rng.random()
    if r < 0.4:
        x = g.pick(TOPICS)
    elif r < 0.55:
        x = g.pick(TOPICS) + " " + g.pick(["theory", "history", "science", "research", "rules", "prices", "basics", "problems", "engineering", "physics", "books"])
    elif r < 0.75:
        x = invented(g)
    elif r < 0.9:
        x = invented(g).capitalize() + " " + invented(g).capitalize()
    else:
        x = g.pick(["the {history|economy|politics|music|art|population|law} of ", "the {rules|theory|science|meaning|philosophy} of "]) + invented(g)
        x = g.raw(x)
    q = g.say("{what is <x>|tell me about <x>|explain <x>|what do you know about <x>|can you explain <x>|do you know anything about <x>|tell me everything about <x>|how does <x> work|explain <x> to me{ in detail|}|what can you tell me about <x>|I have a question about <x>|can we talk about <x>|write an essay about <x>|teach me <x>|<tellme> more about <x>|what are the basics of <x>|who invented <x>|why is <x> important|can you help me with <x>|I want to learn about <x>|give me an overview of <x>|summarize <x>|what is your opinion on <x>|what do you think about <x>|where can I read about <x>|I need help with <x>|are you good at <x>}{|?|.|}", x=x)
    return [(q, g.say(NO_CLUE, x=x))]


def who(g):
    name = g.pick(GIRLS + BOYS) + " " + invented(g).capitalize() if g.chance(0.6) else invented(g).capitalize() + " " + invented(g).capitalize()
    q = g.say("{who is <x>|who was <x>|do you know <x>|have you heard of <x>|tell me about <x>|when was <x> born|what did <x> do|what is <x> famous for|how old is <x>|where does <x> live|where was <x> born|is <x> famous|what do you know about <x>}{|?}", x=name)
    return [(q, g.say(["I am sorry, I do not know <x>. {I am a very small model.|I only know a few simple things.}", "I do not know who <x> is. {I am only a small model.|}", "<x>? I do not know that name, I am sorry.", "I have not heard of <x>. I am a very small model."], x=name))]


ASKS = ["{what is|what's} the latest news", "what happened {today|yesterday|this week|last night}", "what is in the news", "who won the {game|match|election|race|cup} {yesterday|today|last night|last year}", "who is the {president|prime minister|king|mayor} of <c>", "what is the {price|value} of {gold|bitcoin|oil|bread|a house|milk} {today|now}",
        "how much does {a car|a house|a phone|a flight to <c>|a ticket|a horse} cost", "what is the phone number of <p>", "what is my {address|password|phone number|age|birthday|email|mother's name}", "how old am I", "where am I", "where do I live", "what am I thinking", "what did I eat yesterday", "what will happen tomorrow", "who will win the {cup|election|game}",
        "what are the lottery numbers", "what is the {square root|cube} of {two|1234|71|586}", "what is {348|1234|57|986|7421|83} {times|plus|minus|divided by} {77|456|912|1093|38}", "solve {the equation|for x}: x squared plus 3x is {10|28|7}", "integrate x squared", "prove that there are infinitely many primes", "what is the population of <c>", "how many people live in <c>",
        "when did <c> become independent", "what is the best {phone|car|movie|book|restaurant|laptop|film} {this year|in the world|in town}", "which {stock|phone|car|laptop} should I buy", "recommend {a movie|a book|a restaurant|a film|a hotel in <c>}", "what is {playing|on television|on tv} tonight", "when does the {next train|next bus|shop|bank} {leave|open}", "when does the next bus come", "how do I get to {the station|the airport|<c>|the city centre}", "what is the distance {to|from here to} <c>", "who is <p>", "where is <p>", "what is the name of <p>",
        "who invented the {telephone|wheel|computer|radio|light bulb|camera|train}", "when was the {telephone|wheel|computer|radio|camera|car} invented", "in which year did {the war end|the wall fall|Rome fall|the Titanic sink}", "what happened in {1066|1789|1492|1914|1969|2008|1815}", "what is the {boiling point|melting point} of {gold|iron|lead|mercury}", "what is the chemical formula of {sugar|salt|alcohol}", "how do I file my taxes", "is it legal to {park here|record a call}",
        "what medicine should I take", "which pills help against pain", "how do I treat a broken leg", "can you look at my photo", "can you hear this song", "what does this picture show", "what is in this file", "read this file", "how do I install {Linux|Windows|a printer|Python}", "how do I write a loop in {Python|C|Rust|Java}", "what is the difference between TCP and UDP", "what is the airspeed of a swallow", "how many stars are there", "how many words are in this book", "how many fish are in the sea", "how many grains of sand are on a beach"]
TIME = ["what time is it{| now}", "what is the time", "what day is {it|today}", "what is {the date|today's date}", "what year is it", "which month is it", "do you know what time it is", "can you tell me the time", "what is the date today", "what day is it today", "tell me the time", "how late is it"]
WEATHER = ["{what is|what's|how is} the weather{| today| like| like today| outside| now| in <c>}", "will it rain {today|tomorrow|this weekend}", "is it {raining|cold|warm|sunny|snowing} outside", "do you know the weather", "what will the weather be {tomorrow|like tomorrow|on Sunday}", "how {warm|cold|hot} is it{| today| outside}", "is it going to {rain|snow}", "tell me the weather forecast", "what is the temperature{| outside| today}", "does the sun shine today"]
COUNTRIES = "France Germany Italy Spain Portugal England Ireland Austria Poland Greece Japan China India Egypt Kenya Canada Mexico Brazil Peru Norway Sweden Turkey Cuba Chile".split()


def cannot_know(g):
    r = g.rng.random()
    lead = "{||||<hello>, |so |hm, }"
    if r < 0.55:
        q = g.say(lead + g.pick(ASKS), c=g.pick(COUNTRIES), p=g.pick(PEOPLE))
        return [(q + g.pick(["?", "?", ""]), g.say(NO))]
    if r < 0.75:
        return [(g.say(lead + g.pick(TIME) + "{?|?|}"), g.say(["I have no clock, so I do not know. {please look at your computer's clock.|your computer can tell you.}", "I cannot see a clock or a calendar, I am sorry.", "I do not know: I cannot see the time or the date.", "I cannot tell you, because I have no clock. {your computer knows it.|}"]))]
    return [(g.say(lead + g.pick(WEATHER) + "{?|?|}", c=g.pick(COUNTRIES)), g.say(["I cannot see the weather, I am sorry. {please look out of the window.|maybe look out of the window?}", "I do not know: I have no window and no internet.", "I run on your computer without the internet, so I do not know the weather.", "I cannot look outside. what does the sky look like where you are?"]))]


def gibberish(g):
    words = " ".join(g.pick(["", "", "x", "q", "zz"]) + invented(g).lower() for _ in range(g.rng.choice([1, 1, 2, 3])))
    if g.chance(0.3):
        words = "".join(g.pick(list("asdfghjklqwertyuiop")) for _ in range(g.rng.randrange(4, 10)))
    return [(words, g.say(["I am sorry, I do not understand that. {could you say it in other words?|please write it in simple English.}", "I do not understand. could you write it in another way?", "I did not understand that, I am sorry. I only know simple English."]))]


INTENTS = [(5.5, "unknown topic", about), (2.0, "unknown person", who), (5.5, "cannot know", cannot_know), (0.8, "gibberish", gibberish)]
