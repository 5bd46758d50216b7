"""Simple facts: animals, countries, colours, numbers, time, nature, reasons."""

# name: (sound verb or None, kind, legs, home, food, young, one fact)
ANIMALS = {
    "dog": ("barks", "mammal", 4, "with people", "meat and dog food", "puppy", "it is a loyal friend and has a very good nose"),
    "cat": ("meows", "mammal", 4, "with people", "mice, fish and cat food", "kitten", "it can see very well in the dark"),
    "cow": ("moos", "mammal", 4, "on a farm", "grass", "calf", "it gives us milk"),
    "horse": ("neighs", "mammal", 4, "in a stable", "grass and hay", "foal", "it can sleep standing up"),
    "pig": ("oinks", "mammal", 4, "on a farm", "almost everything", "piglet", "it is cleverer than most people think"),
    "sheep": ("says baa", "mammal", 4, "on a farm", "grass", "lamb", "it gives us wool"),
    "goat": ("bleats", "mammal", 4, "on a farm or in the mountains", "grass and leaves", "kid", "it is a very good climber"),
    "duck": ("quacks", "bird", 2, "near ponds and lakes", "plants, snails and insects", "duckling", "it can swim and fly"),
    "hen": ("clucks", "bird", 2, "on a farm", "seeds and worms", "chick", "it lays eggs"),
    "rooster": ("crows", "bird", 2, "on a farm", "seeds and worms", "chick", "it wakes up very early"),
    "lion": ("roars", "mammal", 4, "in Africa", "meat", "cub", "it is called the king of the animals"),
    "tiger": ("roars", "mammal", 4, "in the forests of Asia", "meat", "cub", "it has orange fur with black stripes"),
    "elephant": ("trumpets", "mammal", 4, "in Africa and Asia", "grass, leaves and fruit", "calf", "it is the largest animal on land and has a long trunk"),
    "mouse": ("squeaks", "mammal", 4, "in fields and houses", "seeds and crumbs", "pup", "it is small and very quick"),
    "frog": ("croaks", "amphibian", 4, "in ponds", "insects", "tadpole", "it can jump very far"),
    "bee": ("buzzes", "insect", 6, "in a hive", "nectar from flowers", "larva", "it makes honey"),
    "owl": ("hoots", "bird", 2, "in the forest", "mice", "owlet", "it hunts at night and can turn its head very far"),
    "wolf": ("howls", "mammal", 4, "in the forest", "meat", "pup", "it lives in a pack"),
    "snake": ("hisses", "reptile", 0, "in forests, deserts and grass", "mice and other small animals", "snakelet", "it has no legs and smells with its tongue"),
    "bird": ("sings", "bird", 2, "in a nest", "seeds and insects", "chick", "it has feathers and wings"),
    "bear": ("growls", "mammal", 4, "in the forest", "berries, fish and honey", "cub", "it sleeps through much of the winter"),
    "monkey": ("chatters", "mammal", 4, "in the jungle", "fruit and leaves", "infant", "it is a very good climber"),
    "fish": (None, "fish", 0, "in the water", "plants and small animals", "fry", "it breathes in water with its gills"),
    "spider": (None, "arachnid", 8, "in a web", "flies and other insects", "spiderling", "it makes a web to catch insects"),
    "ant": (None, "insect", 6, "in a large nest", "almost everything", "larva", "it can carry things that are heavier than itself"),
    "butterfly": (None, "insect", 6, "in gardens and meadows", "nectar from flowers", "caterpillar", "it was a caterpillar before it got its wings"),
    "giraffe": (None, "mammal", 4, "in Africa", "leaves", "calf", "it is the tallest animal and has a very long neck"),
    "zebra": (None, "mammal", 4, "in Africa", "grass", "foal", "it has black and white stripes"),
    "kangaroo": (None, "mammal", 4, "in Australia", "grass", "joey", "it hops and carries its young in a pouch"),
    "penguin": (None, "bird", 2, "in the cold south", "fish", "chick", "it is a bird that cannot fly, but it swims very well"),
    "whale": ("sings", "mammal", 0, "in the ocean", "tiny sea animals and fish", "calf", "the blue whale is the largest animal of all"),
    "dolphin": ("clicks and whistles", "mammal", 0, "in the ocean", "fish", "calf", "it is clever and breathes air"),
    "shark": (None, "fish", 0, "in the ocean", "fish", "pup", "it has many rows of sharp teeth"),
    "octopus": (None, "sea animal", 8, "in the ocean", "crabs and fish", "larva", "it has eight arms and three hearts"),
    "rabbit": (None, "mammal", 4, "in a burrow", "grass and carrots", "bunny", "it has long ears and hops"),
    "fox": ("barks", "mammal", 4, "in a den in the forest", "mice and berries", "cub", "it has red fur and a bushy tail"),
    "squirrel": (None, "mammal", 4, "in trees", "nuts and seeds", "kit", "it hides nuts for the winter"),
    "hedgehog": (None, "mammal", 4, "in gardens and hedges", "insects and worms", "hoglet", "it rolls up into a ball of spines"),
    "turtle": (None, "reptile", 4, "in water and on land", "plants and small animals", "hatchling", "it carries its house on its back and can grow very old"),
    "camel": (None, "mammal", 4, "in the desert", "dry plants", "calf", "it can live without water for a long time"),
    "crocodile": (None, "reptile", 4, "in warm rivers", "meat and fish", "hatchling", "it has a long mouth full of teeth"),
    "panda": (None, "mammal", 4, "in China", "bamboo", "cub", "it is black and white and eats all day"),
    "koala": (None, "mammal", 4, "in Australia", "leaves of one kind of tree", "joey", "it sleeps most of the day"),
    "bat": (None, "mammal", 2, "in caves", "insects and fruit", "pup", "it is a mammal that can fly, and it sleeps upside down"),
    "eagle": ("screeches", "bird", 2, "high in the mountains", "small animals and fish", "eaglet", "it has very sharp eyes"),
    "parrot": ("talks and screeches", "bird", 2, "in warm forests", "fruit and seeds", "chick", "it can learn to say words"),
    "snail": (None, "mollusc", 0, "in gardens", "leaves", "hatchling", "it is slow and carries its house on its back"),
    "donkey": ("says hee-haw", "mammal", 4, "on a farm", "grass and hay", "foal", "it is strong and patient"),
    "deer": (None, "mammal", 4, "in the forest", "grass and leaves", "fawn", "it is shy and runs fast"),
    "swan": (None, "bird", 2, "on lakes", "water plants", "cygnet", "it is a large white bird with a long neck"),
    "polar bear": ("growls", "mammal", 4, "in the cold north", "fish and seals", "cub", "it has thick white fur"),
    "cheetah": (None, "mammal", 4, "in Africa", "meat", "cub", "it is the fastest animal on land"),
    "worm": (None, "small animal", 0, "in the earth", "dead leaves", "young worm", "it makes the earth soft and good for plants"),
    "fly": ("buzzes", "insect", 6, "almost everywhere", "almost everything", "maggot", "it has two big eyes made of many small ones"),
    "crab": (None, "sea animal", 10, "on the beach and in the sea", "small sea animals", "larva", "it walks sideways"),
}
PLURAL = {"mouse": "mice", "sheep": "sheep", "fish": "fish", "wolf": "wolves", "butterfly": "butterflies", "fox": "foxes", "octopus": "octopuses",
          "deer": "deer", "fly": "flies", "donkey": "donkeys", "monkey": "monkeys", "ostrich": "ostriches"}


def plural(word):
    if word in PLURAL:
        return PLURAL[word]
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


NUM = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
       "seventeen eighteen nineteen twenty").split()
ANIMAL_SIZE = ["ant", "bee", "snail", "mouse", "frog", "hedgehog", "rabbit", "cat", "fox", "dog", "wolf", "sheep", "pig", "lion", "bear", "horse", "cow", "giraffe", "elephant", "whale"]
SPEED = ["snail", "turtle", "duck", "pig", "elephant", "rabbit", "horse", "cheetah"]

END = "{?|?|?|?|}"


def animal(g):
    name = g.pick(list(ANIMALS))
    sound, kind, legs, home, food, young, fact = ANIMALS[name]
    a, an = name, name
    many = plural(name)
    s = dict(a=name, many=many, sound=sound or "", kind=kind, legs=NUM[legs] if legs else "no", home=home, food=food, young=young, fact=fact)
    r = g.rng.random()
    if r < 0.22 and sound:
        q = ["what sound does {a|the} <a> make", "what does {a|the} <a> say", "which sound does a <a> make", "how does a <a> sound", "what noise does {a|the} <a> make", "<tellme> what sound a <a> makes", "what is the sound of a <a>", "what sound do <many> make", "what noise do <many> make"]
        v = sound
        s["said"] = v
        ans = ["{a|the} <a> <sound>."]
    elif r < 0.36:
        q = ["how many legs does {a|the} <a> have", "how many legs do <many> have", "<tellme> how many legs a <a> has", "what number of legs does a <a> have", "does a <a> have legs"]
        if name == "octopus":
            q, ans = ["how many arms does {a|the} octopus have", "how many arms do octopuses have"], ["{an|the} octopus has eight arms."]
        elif legs == 0:
            ans = ["a <a> has no legs.", "<many> have no legs."]
        else:
            q = q[:-1]
            ans = ["{a|the} <a> has <legs> legs.", "<many> have <legs> legs.", "it has <legs> legs."]
    elif r < 0.50:
        q = ["where {does a <a>|do <many>} live", "<tellme> where <many> live", "where can I find {a <a>|<many>}", "what is the home of a <a>", "where is the home of the <a>"]
        ans = ["<many> live <home>.", "{a|the} <a> lives <home>."]
    elif r < 0.64:
        q = ["what {does a <a>|do <many>} eat", "<tellme> what <many> eat", "what is the food of a <a>", "what does the <a> like to eat", "what do <many> like to eat"]
        ans = ["<many> eat <food>.", "{a|the} <a> eats <food>."]
    elif r < 0.74:
        q = ["what is a {baby|young} <a> called", "what do you call a {baby|young} <a>", "what is the {baby|young} of a <a> called", "how is a baby <a> called", "what is the name for a young <a>", "<tellme> what a baby <a> is called"]
        ans = ["a {baby|young} <a> is called a <young>.", "it is called a <young>."]
    elif r < 0.90:
        q = ["what is a <a>", "what are <many>", "tell me {something|a fact} about {a <a>|<many>|the <a>}", "what do you know about <many>", "<tellme> something about <many>", "what is special about {a <a>|<many>}", "can you tell me about <many>", "tell me about {the <a>|<many>}", "describe a <a>", "do you know what a <a> is", "give me a fact about <many>"]
        fact_s = fact[0].upper() + fact[1:]
        if fact.startswith("it "):
            ans = ["a <a> is a <kind>. <fact>.", "a <a> is a <kind> and lives <home>. <fact>.", "the <a> is a <kind>. <fact>. <many> eat <food>."]
        else:
            ans = ["a <a> is a <kind>. <fact>.", "a <a> is a <kind> and lives <home>. <fact>."]
    elif r < 0.95:
        other = g.pick(["bird", "fish", "insect", "mammal", "reptile"])
        q = [f"is {{a|the}} <a> a {other}", f"are <many> {other}{'' if other == 'fish' else 's'}", f"<tellme> if a <a> is a {other}"]
        if name in ("fish", "bird"):
            return animal(g)
        ans = [f"yes, a <a> is a <kind>.", "yes, it is."] if other == kind else ["no, a <a> is a <kind>.", f"no, a <a> is not a {other}. it is a <kind>."]
    else:
        q = ["what kind of animal is {a|the} <a>", "what type of animal is a <a>", "<tellme> what kind of animal a <a> is"]
        ans = ["a <a> is a <kind>.", "the <a> is a <kind>."]
    return [(g.say(g.pick(q) + END, **s), g.say(ans, **s))]


def which_animal(g):
    table = [("says {moo|moooo}", "a cow"), ("says {meow|miaow}", "a cat"), ("says {woof|bow-wow}", "a dog"), ("says quack", "a duck"), ("says {oink|oink oink}", "a pig"), ("says baa", "a sheep"), ("says {cock-a-doodle-doo}", "a rooster"), ("says hee-haw", "a donkey"), ("says ribbit", "a frog"),
             ("{barks}", "a dog"), ("gives us milk", "a cow"), ("gives us wool", "a sheep"), ("lays eggs", "a hen"), ("makes honey", "a bee"), ("has a {long |}trunk", "an elephant"), ("has a {very |}long neck", "a giraffe"), ("has black and white stripes", "a zebra"), ("{spins|makes} a web", "a spider"),
             ("carries its {house|home} on its back", "a snail"), ("hops and has a pouch", "a kangaroo"), ("hoots at night", "an owl"), ("is the biggest {in the world|of all}", "the blue whale"), ("is the {fastest|quickest}{| on land}", "the cheetah"), ("is the tallest", "the giraffe"), ("is the king of the animals", "the lion"),
             ("eats bamboo", "a panda"), ("hides nuts", "a squirrel"), ("has eight arms", "an octopus"), ("can repeat words", "a parrot"), ("roars", "a lion"), ("howls at the moon", "a wolf"), ("is the largest on land", "the elephant"), ("walks sideways", "a crab"), ("has spines", "a hedgehog"), ("is very slow", "a snail"), ("has a mane", "a lion")]
    q, a = g.pick(table)
    return [(g.say("{which|what} animal " + q + END), g.say("{<a>|it is <a>|that is <a>}.", a=a))]


def compare(g):
    order, more, less = g.pick([(ANIMAL_SIZE, ("bigger", "larger", "heavier"), ("smaller", "lighter")), (SPEED, ("faster", "quicker"), ("slower",))])
    i, j = sorted(g.some(range(len(order)), 2))
    small, big = order[i], order[j]
    up = g.chance(0.6)
    word = g.pick(more if up else less)
    win, lose = (big, small) if up else (small, big)
    x, y = (win, lose) if g.chance(0.5) else (lose, win)
    s = dict(x=x, y=y, w=word, win=win, lose=lose)
    if g.chance(0.65):
        q = "{which is <w>, a <x> or a <y>|what is <w>, a <x> or a <y>|what is <w>: a <x> or a <y>|which animal is <w>, the <x> or the <y>|which one is <w>, a <x> or a <y>|is a <x> or a <y> <w>|who is <w>, a <x> or a <y>}"
        a = "{{a|the} <win> is <w>|a <win> is <w> than a <lose>|the <win>}."
    else:
        q = "{is a <x> <w> than a <y>|is the <x> <w> than the <y>}"
        yes = x == win
        a = "{yes, a <win> is <w> than a <lose>|yes, it is}." if yes else "no, a <win> is <w> than a <lose>."
    return [(g.say(q + END, **s), g.say(a, **s))]


CAN = {"fly": (["bird", "bee", "butterfly", "owl", "eagle", "bat", "duck", "parrot", "fly"], ["dog", "cat", "cow", "elephant", "pig", "fish", "snake", "mouse", "penguin", "horse", "turtle", "lion", "ant", "frog"]),
       "swim": (["fish", "duck", "whale", "dolphin", "penguin", "frog", "shark", "turtle", "dog", "swan", "polar bear", "crocodile"], ["hen", "snail", "butterfly", "bee"]),
       "climb trees": (["monkey", "squirrel", "cat", "koala", "bear"], ["fish", "elephant", "cow", "horse", "pig", "whale"]),
       "talk like a human": (["parrot"], ["cat", "dog", "cow", "fish", "horse"]),
       "lay eggs": (["hen", "duck", "turtle", "snake", "frog", "bird", "penguin", "crocodile", "bee"], ["dog", "cat", "cow", "horse", "elephant", "lion"]),
       "live in water": (["fish", "whale", "shark", "dolphin", "octopus", "crab", "frog"], ["lion", "cat", "camel", "giraffe", "bee", "horse"])}


def can(g):
    verb = g.pick(list(CAN))
    yes, no = CAN[verb]
    good = g.chance(0.5)
    name = g.pick(yes if good else no)
    s = dict(a=name, many=plural(name), v=verb)
    q = g.say("{can {a|the} <a> <v>|can <many> <v>|do <many> <v>|is a <a> able to <v>|<tellme> if <many> can <v>}" + END, **s)
    if good:
        a = g.say(["yes, {a <a>|<many>} can <v>.", "yes, <many> can <v>.", "yes."], **s)
    else:
        a = g.say(["no, {a <a>|<many>} cannot <v>.", "no, <many> cannot <v>."], **s)
    return [(q, a)]


CAPITALS = {
    "France": ("Paris", "Europe", "French"), "Germany": ("Berlin", "Europe", "German"), "Italy": ("Rome", "Europe", "Italian"), "Spain": ("Madrid", "Europe", "Spanish"), "Portugal": ("Lisbon", "Europe", "Portuguese"),
    "England": ("London", "Europe", "English"), "Ireland": ("Dublin", "Europe", "English and Irish"), "Scotland": ("Edinburgh", "Europe", "English"), "Austria": ("Vienna", "Europe", "German"), "Switzerland": ("Bern", "Europe", "German, French and Italian"),
    "Belgium": ("Brussels", "Europe", "Dutch and French"), "the Netherlands": ("Amsterdam", "Europe", "Dutch"), "Denmark": ("Copenhagen", "Europe", "Danish"), "Norway": ("Oslo", "Europe", "Norwegian"), "Sweden": ("Stockholm", "Europe", "Swedish"),
    "Finland": ("Helsinki", "Europe", "Finnish"), "Poland": ("Warsaw", "Europe", "Polish"), "Hungary": ("Budapest", "Europe", "Hungarian"), "Greece": ("Athens", "Europe", "Greek"), "Turkey": ("Ankara", "Asia and Europe", "Turkish"),
    "Russia": ("Moscow", "Europe and Asia", "Russian"), "Ukraine": ("Kyiv", "Europe", "Ukrainian"), "Romania": ("Bucharest", "Europe", "Romanian"), "Bulgaria": ("Sofia", "Europe", "Bulgarian"), "Croatia": ("Zagreb", "Europe", "Croatian"),
    "Serbia": ("Belgrade", "Europe", "Serbian"), "Iceland": ("Reykjavik", "Europe", "Icelandic"), "China": ("Beijing", "Asia", "Chinese"), "Japan": ("Tokyo", "Asia", "Japanese"), "India": ("New Delhi", "Asia", "Hindi, English and many others"),
    "South Korea": ("Seoul", "Asia", "Korean"), "Thailand": ("Bangkok", "Asia", "Thai"), "Vietnam": ("Hanoi", "Asia", "Vietnamese"), "Indonesia": ("Jakarta", "Asia", "Indonesian"), "Egypt": ("Cairo", "Africa", "Arabic"),
    "Kenya": ("Nairobi", "Africa", "Swahili and English"), "Morocco": ("Rabat", "Africa", "Arabic"), "Nigeria": ("Abuja", "Africa", "English"), "Ghana": ("Accra", "Africa", "English"), "Canada": ("Ottawa", "North America", "English and French"),
    "Mexico": ("Mexico City", "North America", "Spanish"), "the United States": ("Washington", "North America", "English"), "Brazil": ("Brasilia", "South America", "Portuguese"), "Argentina": ("Buenos Aires", "South America", "Spanish"), "Chile": ("Santiago", "South America", "Spanish"),
    "Peru": ("Lima", "South America", "Spanish"), "Colombia": ("Bogota", "South America", "Spanish"), "Cuba": ("Havana", "North America", "Spanish"), "Australia": ("Canberra", "Australia", "English"), "New Zealand": ("Wellington", "Oceania", "English"),
}


def capital(g):
    c = g.pick(list(CAPITALS))
    city, continent, language = CAPITALS[c]
    s = dict(c=c, city=city, k=continent, l=language)
    r = g.rng.random()
    if r < 0.62:
        q = g.say("{what is the capital {city |}of <c>|what's the capital of <c>|<tellme> the capital of <c>|which city is the capital of <c>|name the capital of <c>|capital of <c>|the capital of <c> is|what is <c>'s capital|what city is the capital of <c>|<c>: what is the capital}" + END, **s)
        a = g.say(["the capital of <c> is <city>.", "the capital of <c> is <city>.", "it is <city>.", "<city> is the capital of <c>."], **s)
        turns = [(q, a)]
        while g.chance(0.3) and len(turns) < 3:
            c2 = g.pick(list(CAPITALS))
            turns.append((g.say("{and |and what about |what about |and the capital of |and of }<c>" + END, c=c2), g.say(["the capital of <c> is <city>.", "<city> is the capital of <c>."], c=c2, city=CAPITALS[c2][0])))
        return turns
    if r < 0.76:
        if city in ("Washington", "Mexico City") and g.chance(0.5):
            return capital(g)
        q = g.say("{where is <city>|in which country is <city>|what country is <city> in|in what country is <city>|which country has the capital <city>|<city> is the capital of which country|where is the city of <city>|<tellme> where <city> is|where can I find <city>}" + END, **s)
        return [(q, g.say(["<city> is in <c>.", "<city> is the capital of <c>.", "<city> is in <c>. it is the capital."], **s))]
    if r < 0.88:
        if c == "Australia":
            return capital(g)
        q = g.say("{where is <c>|on which continent is <c>|what continent is <c> in|in which continent is <c>|<tellme> where <c> is|which continent is <c> in|in which part of the world is <c>|where can I find <c>|is <c> in <k>}" + END, **s)
        a = "yes, <c> is in <k>." if q.lower().startswith("is ") else g.pick(["<c> is in <k>.", "<c> is a country in <k>."])
        return [(q, g.say(a, **s))]
    q = g.say("{what language do {people|they} speak in <c>|which language is spoken in <c>|what do people speak in <c>|<tellme> what language people speak in <c>|what is the language of <c>|what languages are spoken in <c>}" + END, **s)
    return [(q, g.say(["people in <c> speak <l>.", "in <c>, people speak <l>."], **s))]


COLOURS = {"the sky": "blue", "grass": "green", "snow": "white", "blood": "red", "milk": "white", "coal": "black", "a banana": "yellow", "a lemon": "yellow", "a strawberry": "red", "a tomato": "red", "a carrot": "orange", "an orange": "orange",
           "the sun": "yellow", "chocolate": "brown", "a cucumber": "green", "the night sky": "black", "a plum": "purple", "a frog": "green", "an elephant": "grey", "a cherry": "red", "a leaf in summer": "green", "gold": "yellow", "silver": "grey", "a cloud": "white",
           "the sea": "blue", "earth": "brown", "a crow": "black", "a polar bear": "white", "a fire truck": "red", "salt": "white", "sugar": "white", "broccoli": "green", "a pumpkin": "orange", "butter": "yellow", "a swan": "white", "an apple": "red, green or yellow", "honey": "golden yellow",
           "a lime": "green", "a raspberry": "red", "coffee": "brown", "rice": "white", "a blueberry": "blue", "spinach": "green", "a sunflower": "yellow", "ice": "clear or white", "a rose": "often red", "a flamingo": "pink", "a ladybird": "red with black dots", "a pig": "pink", "a pea": "green", "the moon": "white or grey", "an eggplant": "purple", "a zebra": "black and white", "a panda": "black and white", "a chick": "yellow"}
MIX = {("blue", "yellow"): "green", ("red", "yellow"): "orange", ("red", "blue"): "purple", ("red", "white"): "pink", ("black", "white"): "grey"}


def colour(g):
    r = g.rng.random()
    col = g.raw("{colour|color}")
    if r < 0.65:
        t = g.pick(list(COLOURS))
        plural_t = False
        q = g.say("{what <col> is <t>|which <col> is <t>|what is the <col> of <t>|<tellme> the <col> of <t>|which <col> does <t> have|what <col> does <t> have|what <col> has <t>}" + END, t=t, col=col)
        return [(q, g.say(["<t> is <c>.", "{usually, |}<t> is <c>."], t=t, c=COLOURS[t]))]
    if r < 0.8:
        (a, b), c = g.pick(list(MIX.items()))
        if g.chance(0.5):
            a, b = b, a
        q = g.say("{what <col> do you get when you mix <a> and <b>|what do <a> and <b> make|what happens if I mix <a> and <b>|mix <a> and <b>, what do you get|which <col> is a mix of <a> and <b>|what is <a> and <b> together|what do you get from <a> and <b>}" + END, a=a, b=b, col=col)
        return [(q, g.say(["<a> and <b> make <c>.", "you get <c>.", "if you mix <a> and <b>, you get <c>."], a=a, b=b, c=c))]
    t = g.pick([k for k, v in COLOURS.items() if " " not in v])
    c = COLOURS[t]
    if g.chance(0.5):
        return [(g.say("is <t> <c>" + END, t=t, c=c), g.say(["yes, <t> is <c>.", "yes, it is."], t=t, c=c))]
    wrong = g.pick([x for x in ("red", "blue", "green", "yellow", "black", "white", "orange") if x != c])
    return [(g.say("is <t> <w>" + END, t=t, w=wrong), g.say(["no, <t> is <c>.", "no, it is <c>."], t=t, c=c))]


DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
SEASON_OF = ["winter", "winter", "spring", "spring", "spring", "summer", "summer", "summer", "autumn", "autumn", "autumn", "winter"]
SEASONS = ["spring", "summer", "autumn", "winter"]
DAYCOUNT = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
HOWMANY = [("days are {there |}in a week", "a week has seven days"), ("months are {there |}in a year", "a year has twelve months"), ("days are {there |}in a year", "a year has 365 days, and a leap year has 366"), ("hours are {there |}in a day", "a day has twenty-four hours"),
           ("minutes are {there |}in an hour", "an hour has sixty minutes"), ("seconds are {there |}in a minute", "a minute has sixty seconds"), ("weeks are {there |}in a year", "a year has fifty-two weeks"), ("seasons are there{| in a year}", "there are four seasons: spring, summer, autumn and winter"),
           ("letters are {there |}in the alphabet", "the English alphabet has twenty-six letters"), ("fingers {do I have|does a hand have|are on one hand|does a person have on one hand}", "a hand has five fingers"), ("fingers do people have", "most people have ten fingers"), ("toes do people have", "most people have ten toes"),
           ("eyes {do you have|do people have|does a person have}", "a person has two eyes"), ("ears {do people have|does a person have}", "a person has two ears"), ("sides does a triangle have", "a triangle has three sides"), ("sides does a square have", "a square has four sides"), ("corners does a {rectangle|square} have", "it has four corners"), ("sides does a hexagon have", "a hexagon has six sides"),
           ("sides does a pentagon have", "a pentagon has five sides"), ("corners does a triangle have", "a triangle has three corners"), ("wheels does a {car|bus} have", "it has four wheels"), ("wheels does a {bicycle|bike} have", "a bicycle has two wheels"), ("wheels does a tricycle have", "a tricycle has three wheels"), ("planets are {there|in the solar system|there in our solar system}", "there are eight planets"),
           ("continents are there{| on earth}", "there are seven continents"), ("oceans are there", "there are five oceans"), ("colours {are {there |}in a rainbow|does a rainbow have}", "a rainbow has seven colours"), ("strings does a guitar have", "a guitar has six strings"), ("strings does a violin have", "a violin has four strings"), ("keys does a piano have", "a piano has eighty-eight keys"),
           ("moons does {the earth|earth} have", "the earth has one moon"), ("legs does a {table|chair} have", "it usually has four legs"), ("wings does a bird have", "a bird has two wings"), ("people are on earth", "there are about eight billion people on earth"), ("cents are in a dollar", "a dollar has one hundred cents"), ("eggs are in a dozen", "a dozen is twelve eggs"),
           ("is a dozen", "a dozen is twelve"), ("sides does a circle have", "a circle has no sides, it is round"), ("sides does a cube have", "a cube has six faces"), ("legs does a person have", "a person has two legs"), ("teeth {do people have|does an adult have|does a person have}", "an adult usually has thirty-two teeth"), ("years are in a century", "a century has one hundred years"), ("years are in a decade", "a decade has ten years"), ("players are in a football team", "a football team has eleven players"),
           ("metres are in a kilometre", "a kilometre has one thousand metres"), ("centimetres are in a metre", "a metre has one hundred centimetres"), ("grams are in a kilogram", "a kilogram has one thousand grams"), ("horns does a unicorn have", "a unicorn has one horn"), ("humps does a camel have", "a camel has one or two humps")]


def calendar(g):
    r = g.rng.random()
    if r < 0.34:
        names, what = (DAYS, "day") if g.chance(0.5) else (MONTHS, "month")
        i = int(g.rng.random() * len(names))
        nxt, prv, x = names[(i + 1) % len(names)], names[i - 1], names[i]
        s = dict(x=x, n=nxt, p=prv, w=what)
        if g.chance(0.65):
            extra = "|if today is <x>, what is tomorrow" if what == "day" else ""
            return [(g.say("{{what|which} <w> comes after <x>|what comes after <x>|what is the <w> after <x>|which <w> follows <x>|<tellme> which <w> comes after <x>|after <x> comes|what <w> is after <x>" + extra + "}" + END, **s),
                     g.say(["<n> comes after <x>.", "after <x> comes <n>.", "it is <n>."], **s))]
        return [(g.say("{{what|which} <w> comes before <x>|what comes before <x>|what is the <w> before <x>|which <w> is before <x>|<tellme> which <w> comes before <x>}" + END, **s), g.say(["<p> comes before <x>.", "before <x> comes <p>.", "it is <p>."], **s))]
    if r < 0.62:
        q, a = g.pick(HOWMANY)
        lead = "{how many |how many |how many |<tellme> how many |so how many }"
        return [(g.say(lead + q + END), g.say(a + "."))]
    if r < 0.72:
        i = int(g.rng.random() * 12)
        s = dict(m=MONTHS[i], d=str(DAYCOUNT[i]), s=SEASON_OF[i])
        if g.chance(0.5):
            tail = ", and 29 in a leap year" if i == 1 else ""
            return [(g.say("{how many days does <m> have|how many days are in <m>|how long is <m>}" + END, **s), g.say("<m> has <d> days" + tail + ".", **s))]
        return [(g.say("{in which season is <m>|what season is <m>|which season is it in <m>|is <m> in <s>|what is the season in <m>}" + END, **s), g.say(["<m> is in <s>{| in the north}.", "in the north, <m> is in <s>."], **s))]
    if r < 0.84:
        i = int(g.rng.random() * 4)
        s = dict(x=SEASONS[i], n=SEASONS[(i + 1) % 4], p=SEASONS[i - 1])
        about = {"spring": "in spring, the flowers begin to grow and the days become longer.", "summer": "in summer it is warm, and the days are long.", "autumn": "in autumn, the leaves change their colours and fall.", "winter": "in winter it is cold, and in many places it snows."}[SEASONS[i]]
        k = g.rng.random()
        if k < 0.4:
            return [(g.say("{{what|which} season comes after <x>|what comes after <x>|which season follows <x>}" + END, **s), g.say(["<n> comes after <x>.", "after <x> comes <n>."], **s))]
        if k < 0.6:
            return [(g.say("{{what|which} season comes before <x>|what comes before <x>}" + END, **s), g.say("<p> comes before <x>.", **s))]
        return [(g.say("{what is <x>|what happens in <x>|tell me about <x>|what is <x> like|describe <x>|how is the weather in <x>}" + END, **s), g.say(about))]
    q, a = g.pick([
        ("{what|which} is the {first|1st} day of the week", "many people say Monday, and some say Sunday."), ("{what|which} is the first month{| of the year}", "the first month of the year is January."), ("{what|which} is the last month{| of the year}", "the last month of the year is December."),
        ("{what|which} is the shortest month", "February is the shortest month."), ("what are the days of the week", "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday."), ("{name|list|what are} the months{| of the year}", "January, February, March, April, May, June, July, August, September, October, November and December."),
        ("{name|what are|list|tell me} the {four |}seasons", "the four seasons are spring, summer, autumn and winter."), ("name the days of the week", "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday."), ("{what|which} days are {on |}the weekend", "Saturday and Sunday are the weekend."), ("{which|what} is the {warmest|hottest} season", "summer is the warmest season."),
        ("{which|what} is the coldest season", "winter is the coldest season."), ("when is {Christmas|Christmas day}", "Christmas is on the 25th of December."), ("when does {the new year|a new year} begin", "the new year begins on the first of January."), ("when do {the |}leaves fall", "the leaves fall in autumn."), ("when does it snow", "it snows in winter, when it is cold."), ("what is a leap year", "a leap year has one more day: February has 29 days."),
        ("what day is after {the weekend|the end of the week}", "Monday comes after the weekend."), ("what is {noon|midday}", "noon is twelve o'clock in the middle of the day."), ("what is midnight", "midnight is twelve o'clock in the night."), ("when does the sun rise", "the sun rises in the morning."), ("when does the sun {set|go down}", "the sun sets in the evening."), ("where does the sun rise", "the sun rises in the east."), ("where does the sun set", "the sun sets in the west."),
    ])
    return [(g.say(q + END), g.say(a))]


def number(g, n):
    return str(n) if g.chance(0.7) or n > 20 else NUM[n]


def arithmetic(g):
    r = g.rng.random()
    if r < 0.35:
        a, b = g.rng.randrange(0, 11), g.rng.randrange(0, 11)
        op, word, c = "+", "plus", a + b
    elif r < 0.8:
        a, b = g.rng.randrange(0, 21), g.rng.randrange(0, 11)
        if b > a:
            a, b = b, a
        op, word, c = "-", "minus", a - b
    else:
        a, b = g.rng.randrange(0, 11), g.rng.randrange(0, 11)
        op, word, c = g.pick(["x", "*"]), "times", a * b
    if g.chance(0.5):
        e = f"{a} {op} {b}" if g.chance(0.8) else f"{a}{op}{b}"
        full = f"{a} {op} {b}"
    elif g.chance(0.6):
        e = full = f"{a} {word} {b}"
    else:
        e = f"{NUM[a]} {word} {NUM[b]}"
        full = f"{a} {word} {b}"
    if word == "minus" and g.chance(0.15):
        e = f"{a} take away {b}"
    q = g.say("{what is <e>|what's <e>|how much is <e>|<e>|<e> =|<e> is|can you calculate <e>|calculate <e>|<tellme> what <e> is|what do you get for <e>|please work out <e>|<e> makes|and <e>}" + END, e=e)
    ans = g.say(["<f> is <c>.", "<f> is <c>.", "<f> makes <c>.", "it is <c>.", "that is <c>."], f=full, c=str(c))
    turns = [(q, ans)]
    if g.chance(0.15):
        a2, b2 = g.rng.randrange(0, 11), g.rng.randrange(0, 11)
        turns.append((g.say("{and|and what is|what about|and how much is} <e>?", e=f"{a2} + {b2}"), f"{a2} + {b2} is {a2 + b2}."))
    return turns


def counting(g):
    r = g.rng.random()
    if r < 0.3:
        n = g.rng.choice([3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 12, 15, 20])
        q = g.say("{count to <n>|can you count to <n>|please count to <n>|count from {1|one} to <n>|count up to <n>|let us count to <n>|could you count to <n>}{|?|.}", n=number(g, n))
        if q.startswith(("Count", "Please")):
            q = q.rstrip("?")
        ans = ", ".join(NUM[1:n + 1]) + "." if g.chance(0.5) else ", ".join(str(i) for i in range(1, n + 1)) + "."
        return [(q, g.say(ans))]
    if r < 0.38:
        n = g.rng.choice([3, 5, 10])
        q = g.say("{count {down|backwards} from <n>|can you count {down|backwards} from <n>|count back from <n>}{|?}", n=number(g, n))
        return [(q, g.say(", ".join(NUM[n:0:-1]) + "."))]
    if r < 0.62:
        n = g.rng.randrange(0, 100)
        return [(g.say("{what|which} number {comes after|is after|follows} <n>{?|}", n=number(g, n)), g.say(["{after|the number after} <n> " + "comes <m>.", "it is <m>.", "<m> comes after <n>."][1:], n=str(n), m=str(n + 1)))]
    if r < 0.75:
        n = g.rng.randrange(1, 100)
        return [(g.say("{what|which} number {comes before|is before} <n>{?|}", n=number(g, n)), g.say(["it is <m>.", "<m> comes before <n>."], n=str(n), m=str(n - 1)))]
    if r < 0.9:
        a, b = g.some(range(0, 60), 2)
        big = g.chance(0.6)
        w = g.pick(["bigger", "larger", "greater", "more"]) if big else g.pick(["smaller", "less"])
        return [(g.say("{{which|what} is <w>, <a> or <b>|which number is <w>, <a> or <b>|is <a> or <b> <w>|what is <w>: <a> or <b>}?", w=w, a=str(a), b=str(b)), g.say("<m> is <w> than <n>.", w=w, m=str(max(a, b) if big else min(a, b)), n=str(min(a, b) if big else max(a, b))))]
    n = g.rng.randrange(2, 21)
    if g.chance(0.5):
        return [(g.say("is <n> an {even|odd} number?", n=str(n)), f"{n} is an {'even' if n % 2 == 0 else 'odd'} number.")]
    if g.chance(0.5):
        return [(g.say("what is {half of|the half of} <n>?", n=str(n * 2)), f"Half of {n * 2} is {n}.")]
    return [(g.say("what is {twice|double} <n>?", n=str(n)), f"Twice {n} is {n * 2}.")]


# question stems (without a question mark) and answers
GENERAL = [
    (["why is the sky blue", "what makes the sky blue", "why does the sky look blue", "why do we see a blue sky"], ["the air scatters blue light from the sun more than the other colours, so the sky looks blue.", "because the air spreads the blue part of the sunlight in all directions."]),
    (["why is grass green", "why are leaves green", "why are plants green"], ["plants have a green substance that catches the light of the sun.", "because of the green colour in their leaves, which helps them to use sunlight."]),
    (["why do leaves {fall|change colour|turn red}", "why do trees lose their leaves", "why do trees lose leaves in autumn"], ["in autumn, trees save water and strength for the winter, so they let their leaves go."]),
    (["why do we sleep", "why do people sleep", "why do I need sleep", "why is sleep important", "why must we sleep"], ["sleep lets the body and the mind rest and repair themselves.", "because our body and our brain need rest."]),
    (["why do we eat", "why do we need food", "why do people eat", "why must we eat"], ["food gives our body energy and helps it to grow."]),
    (["why do we drink water", "why do we need water", "why is water important", "why should I drink water"], ["our body is mostly water, and it needs fresh water to work well."]),
    (["why does it rain", "where does rain come from", "how does rain form", "how is rain made", "what makes it rain", "what causes rain", "how does it rain"], ["water rises into the air, becomes clouds, and falls down again as rain.", "when the drops in a cloud become too heavy, they fall as rain."]),
    (["why does it snow", "how does snow form", "where does snow come from", "what is snow made of"], ["when it is very cold, the water in the clouds freezes and falls as snow.", "snow is made of tiny crystals of ice."]),
    (["why is the sea salty", "why is the ocean salty", "why does sea water taste salty", "why is there salt in the sea"], ["rivers carry salt from the rocks into the sea, and the salt stays there."]),
    (["why do birds sing", "why does a bird sing"], ["birds sing to find a partner and to say that this place is theirs."]),
    (["why do cats purr", "why does my cat purr", "why does a cat purr"], ["cats often purr when they feel good and safe."]),
    (["why do dogs bark", "why does my dog bark"], ["dogs bark to warn, to greet or to ask for something."]),
    (["why do dogs wag their tails", "why does my dog wag its tail"], ["a dog wags its tail to show how it feels, often because it is happy."]),
    (["why do bees make honey", "how do bees make honey", "how is honey made"], ["bees collect nectar from flowers and turn it into honey, their food for the winter."]),
    (["why is the sun hot", "why does the sun shine", "what makes the sun shine"], ["the sun is a huge ball of hot gas. deep inside, it makes energy all the time."]),
    (["why is it dark at night", "why does it get dark", "why is there night"], ["the earth turns, and at night our side looks away from the sun."]),
    (["why is there day and night", "what makes day and night"], ["the earth turns around once a day: the side that faces the sun has day, the other has night."]),
    (["why do we have seasons", "why are there seasons", "what causes the seasons"], ["the earth is tilted, so during the year each half gets more or less sun."]),
    (["why does the moon change its shape", "why does the moon look different", "why is the moon sometimes half"], ["the sun lights different parts of the moon as it goes around the earth."]),
    (["why does the moon shine", "does the moon make light", "how does the moon shine"], ["the moon makes no light of its own. it reflects the light of the sun."]),
    (["why do things fall{| down}", "what is gravity", "why does an apple fall down", "what makes things fall"], ["gravity pulls things towards the earth."]),
    (["why do boats float", "why does wood float", "why does a ship not sink", "why do ships float"], ["a boat is lighter than the water it pushes away, so it floats."]),
    (["why does ice float"], ["ice is a little lighter than water, so it floats."]),
    (["why do we yawn", "why do people yawn"], ["we yawn when we are tired or bored, but nobody knows exactly why."]),
    (["why do we dream", "why do people dream"], ["nobody knows exactly. in dreams, the brain may be sorting what we have seen."]),
    (["why do we laugh", "why do people laugh"], ["we laugh when something is funny or when we are happy together."]),
    (["why do we cry", "why do people cry"], ["we cry when we are sad, hurt or very happy. tears also keep our eyes clean."]),
    (["why do we brush our teeth", "why should I brush my teeth"], ["to keep our teeth clean and healthy."]),
    (["why do we wash our hands", "why should I wash my hands"], ["washing our hands takes away dirt and germs, so that we stay healthy."]),
    (["why do we have bones", "what are bones for"], ["bones hold our body up and protect the soft parts inside."]),
    (["why do we go to school", "why do children go to school", "why is school important"], ["children go to school to learn to read, to write, to count and to be with others."]),
    (["why do people work", "why do we work"], ["people work to earn money and to do something useful."]),
    (["why do people read books", "why should I read", "why is reading good"], ["books are full of stories and knowledge, and reading makes us think."]),
    (["why do onions make us cry", "why do I cry when I cut onions"], ["a cut onion sends a sharp gas into the air, and our eyes answer with tears."]),
    (["why does bread rise", "what does yeast do"], ["yeast makes little bubbles of gas in the dough, and so the bread rises."]),
    (["why is blood red"], ["blood is red because of the iron in it."]),
    (["why do fish live in water", "how do fish breathe", "how does a fish breathe"], ["fish breathe with gills, which take air out of the water."]),
    (["why do camels have humps", "what is in a camel's hump"], ["camels store fat in their humps, so they can live long without food."]),
    (["why do giraffes have long necks", "why does a giraffe have a long neck"], ["with a long neck, a giraffe can reach leaves high in the trees."]),
    (["why do zebras have stripes"], ["the stripes may keep flies away and make it hard for lions to see a single zebra."]),
    (["why do bears sleep in winter", "why do animals sleep in winter"], ["there is little food in winter, so they save energy by sleeping."]),
    (["why do birds fly south", "where do birds go in winter"], ["many birds fly to warm countries, because there is more food in winter."]),
    (["how do birds fly", "how does a bird fly", "how can birds fly"], ["birds flap their wings and push the air down, and their light bones help them."]),
    (["how do planes fly", "how does a plane fly", "how can a plane fly", "how does an airplane stay in the air"], ["the engines push the plane forward, and the air lifts its wings."]),
    (["how does a car work", "how do cars move", "what makes a car go"], ["an engine or a motor turns the wheels of the car."]),
    (["how does a clock work"], ["a clock counts even steps of time and shows them with its hands or numbers."]),
    (["how does a computer work", "what is inside a computer"], ["a computer follows simple instructions very fast, using tiny switches that are on or off."]),
    (["how does a {lamp|light bulb} work"], ["electricity flows through it and makes it glow."]),
    (["how does a fridge work", "how does a refrigerator work"], ["a fridge carries the heat from the inside to the outside."]),
    (["how does a magnet work", "what does a magnet do"], ["a magnet pulls things that are made of iron."]),
    (["how does a seed grow", "how does a tree grow", "how do trees grow", "how do flowers grow"], ["a seed drinks water, sends a root down and a stem up, and then grows with the light of the sun."]),
    (["how is bread made", "how do you make bread", "how do I bake bread", "what is bread made of"], ["bread is made of flour, water, salt and yeast, and then it is baked in the oven."]),
    (["how is cheese made", "what is cheese made of", "where does cheese come from"], ["cheese is made from milk."]),
    (["how is butter made", "what is butter made of"], ["butter is made from cream."]),
    (["how is paper made", "what is paper made of", "where does paper come from"], ["paper is made from wood."]),
    (["how is glass made", "what is glass made of"], ["glass is made from sand that is melted at great heat."]),
    (["how is chocolate made", "what is chocolate made of", "where does chocolate come from"], ["chocolate is made from cocoa beans and sugar."]),
    (["how is wine made", "what is wine made of"], ["wine is made from grapes."]), (["what is paper used for", "what do we use paper for"], ["we write, draw and print on paper."]),
    (["where does milk come from", "where do we get milk from"], ["milk comes from cows, and also from goats and sheep."]), (["where does wool come from", "what is wool made of"], ["wool comes from sheep."]),
    (["where do eggs come from"], ["eggs come from hens."]), (["where does honey come from"], ["honey comes from bees."]), (["where does wood come from"], ["wood comes from trees."]), (["where does sugar come from"], ["sugar comes from sugar cane and from beets."]),
    (["where do apples grow", "where do apples come from"], ["apples grow on trees."]), (["where do potatoes grow", "where do carrots grow"], ["they grow in the ground."]), (["where do grapes grow"], ["grapes grow on vines."]), (["where do bananas grow"], ["bananas grow in warm countries."]),
    (["what is water made of"], ["water is made of hydrogen and oxygen."]), (["what is ice", "what is ice made of"], ["ice is frozen water."]), (["what is steam"], ["steam is water that has become a hot gas."]), (["what is air made of", "what do we breathe"], ["air is mostly nitrogen and oxygen. we need the oxygen."]),
    (["when does water freeze", "at what temperature does water freeze", "what happens when water freezes"], ["water freezes at zero degrees and becomes ice."]), (["when does water boil", "at what temperature does water boil"], ["water boils at one hundred degrees."]), (["what happens when ice melts", "what does ice become when it melts"], ["it becomes water."]),
    (["{what|which} is the {biggest|largest} planet"], ["Jupiter is the largest planet."]), (["{what|which} is the smallest planet"], ["Mercury is the smallest planet."]), (["{what|which} planet do we live on", "what is the name of our planet", "on which planet do we live"], ["we live on the planet Earth."]),
    (["{which|what} planet is {closest|nearest} to the sun"], ["Mercury is closest to the sun."]), (["{which|what} planet {is red|is called the red planet}"], ["Mars is the red planet."]), (["{which|what} planet has {big |}rings"], ["Saturn is famous for its rings."]), (["{name|what are|list} the planets"], ["Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune."]),
    (["what is the sun", "is the sun a star", "is the sun a planet"], ["the sun is a star, a huge ball of hot gas."]), (["what is the moon"], ["the moon is a ball of rock that goes around the earth."]), (["what is a star", "what are stars"], ["a star is a huge ball of hot gas, like our sun, but far away."]), (["what is a planet"], ["a planet is a large ball that goes around a star."]),
    (["is the earth {round|flat}", "what shape is the earth", "what is the shape of the earth"], ["the earth is round, almost like a ball."]), (["how far is the {moon|moon from the earth}", "how far away is the moon"], ["the moon is about 384 thousand kilometres away."]), (["how far away is the sun", "how far is the sun"], ["the sun is about 150 million kilometres away."]), (["how old is the earth"], ["the earth is about four and a half billion years old."]),
    (["{what|which} is the {biggest|largest} ocean"], ["the Pacific is the largest ocean."]), (["{what|which} is the longest river"], ["the Nile and the Amazon are the longest rivers."]), (["{what|which} is the highest mountain{| in the world}", "{what|which} is the tallest mountain"], ["Mount Everest is the highest mountain."]), (["{what|which} is the {biggest|largest} country"], ["Russia is the largest country."]), (["{what|which} is the {biggest|largest} desert", "is the Sahara a desert"], ["the Sahara is the largest hot desert."]),
    (["{what|which} is the smallest country"], ["the Vatican is the smallest country."]), (["{what|which} is the {biggest|largest} animal", "{what|which} animal is the biggest"], ["the blue whale is the largest animal."]), (["{what|which} is the fastest animal"], ["the cheetah is the fastest animal on land."]), (["{what|which} is the tallest animal"], ["the giraffe is the tallest animal."]), (["{what|which} is the {biggest|largest} continent"], ["Asia is the largest continent."]),
    (["{name|what are|list} the {|seven }continents"], ["Africa, Antarctica, Asia, Australia, Europe, North America and South America."]), (["{name|what are|list} the colours of the rainbow", "what colours are in a rainbow"], ["red, orange, yellow, green, blue, indigo and violet."]), (["{what are|name} the {|three }primary colours"], ["red, yellow and blue."]), (["how does a rainbow form", "what is a rainbow", "what makes a rainbow", "how is a rainbow made", "when do we see a rainbow"], ["a rainbow appears when the sun shines through drops of rain."]),
    (["what is thunder", "what makes thunder", "what causes thunder"], ["thunder is the sound that lightning makes."]), (["what is lightning"], ["lightning is a big spark of electricity in a storm."]), (["what is wind", "where does wind come from", "what makes the wind blow"], ["wind is moving air."]), (["what is a cloud", "what are clouds made of"], ["a cloud is made of tiny drops of water."]), (["what is fog"], ["fog is a cloud that lies on the ground."]),
    (["what do we see with", "what do we use to see", "what are eyes for"], ["we see with our eyes."]), (["what do we hear with", "what are ears for", "what do we use to hear"], ["we hear with our ears."]), (["what do we smell with", "what is a nose for", "what is the nose for"], ["we smell with our nose."]), (["what do we taste with", "what is the tongue for"], ["we taste with our tongue."]), (["what does the heart do", "what is the heart for", "what does my heart do"], ["the heart pumps blood through the body."]),
    (["what does the brain do", "what is the brain for"], ["the brain thinks, feels and controls the body."]), (["what do lungs do", "what are lungs for", "what do the lungs do"], ["the lungs take in air."]), (["what are legs for"], ["we walk and run with our legs."]), (["what are teeth for", "what do we chew with"], ["we bite and chew with our teeth."]), (["what are hands for"], ["we hold and touch things with our hands."]), (["what does the stomach do"], ["the stomach breaks down our food."]), (["what does the skin do"], ["the skin protects the body and lets us feel."]),
    (["what are the five senses", "name the five senses", "how many senses do we have"], ["the five senses are sight, hearing, smell, taste and touch."]), (["is a tomato a fruit", "is a tomato a fruit or a vegetable"], ["it is a fruit, but most people cook it like a vegetable."]), (["is a {banana|apple|pear|cherry} a fruit"], ["yes, it is a fruit."]), (["is a carrot a fruit", "is a potato a fruit"], ["no, it is a vegetable."]), (["is a carrot a vegetable", "is a potato a vegetable"], ["yes, it is a vegetable."]),
    (["is {fire|the sun} {hot|cold}"], ["it is very hot."]), (["is ice {hot|cold}"], ["ice is cold."]), (["is a lemon {sweet|sour}", "how does a lemon taste", "what does a lemon taste like"], ["a lemon is sour."]), (["is sugar sweet", "how does sugar taste", "what does sugar taste like"], ["sugar is sweet."]), (["is salt sweet", "how does salt taste"], ["salt is salty, not sweet."]), (["how does honey taste", "is honey sweet"], ["honey is sweet."]), (["is a stone soft", "is a stone hard", "is a rock hard or soft"], ["a stone is hard."]), (["is a pillow {hard|soft}", "is a pillow hard or soft"], ["a pillow is soft."]), (["is water wet", "is water dry"], ["water is wet."]),
    (["what do you do with a pen", "what is a pen for", "what do I use a pen for"], ["you write with a pen."]), (["what is a {knife|pair of scissors} for", "what do you do with a knife"], ["it is for cutting."]), (["what is a spoon for", "what do you do with a spoon"], ["you eat soup with a spoon."]), (["what is an umbrella for", "when do I need an umbrella"], ["an umbrella keeps you dry in the rain."]), (["what is a key for", "what do you do with a key"], ["you open a lock with a key."]), (["what is a bed for"], ["a bed is for sleeping."]), (["what is a chair for"], ["a chair is for sitting."]),
    (["what is a clock for", "what does a clock show"], ["a clock shows the time."]), (["what is a lamp for"], ["a lamp gives light."]), (["what is soap for"], ["we wash with soap."]), (["what is a bridge for"], ["a bridge lets people cross a river."]), (["what is a map for"], ["a map shows the way."]), (["what is money for", "what is money"], ["with money we buy and sell things."]), (["what is a phone for", "what is a telephone"], ["with a phone you can talk to people far away."]), (["what is a coat for", "why do we wear clothes"], ["it keeps us warm and dry."]), (["what is a hammer for"], ["with a hammer you drive nails into wood."]),
    (["what does a baker do", "what is a baker"], ["a baker bakes bread and cakes."]), (["what does a doctor do", "what is a doctor"], ["a doctor helps people who are ill."]), (["what does a teacher do", "what is a teacher"], ["a teacher helps others to learn."]), (["what does a farmer do", "what is a farmer"], ["a farmer grows food and keeps animals."]), (["what does a pilot do", "what is a pilot"], ["a pilot flies planes."]), (["what does a cook do", "what is a cook", "what does a chef do"], ["a cook makes food."]), (["what does a firefighter do", "what is a firefighter"], ["a firefighter puts out fires and rescues people."]),
    (["what does a gardener do", "what is a gardener"], ["a gardener takes care of plants."]), (["what does a carpenter do", "what is a carpenter"], ["a carpenter makes things out of wood."]), (["what does a sailor do", "what is a sailor"], ["a sailor works on a ship."]), (["what does a nurse do", "what is a nurse"], ["a nurse takes care of people who are ill."]), (["what does a painter do", "what is a painter"], ["a painter paints pictures or walls."]), (["what does a writer do", "what is a writer"], ["a writer writes books and stories."]), (["what does a dentist do", "what is a dentist"], ["a dentist takes care of our teeth."]), (["what does a tailor do", "what is a tailor"], ["a tailor makes clothes."]),
    (["what does a shoemaker do"], ["a shoemaker makes shoes."]), (["what does a police officer do"], ["a police officer helps to keep people safe."]), (["what does an astronaut do", "what is an astronaut"], ["an astronaut travels into space."]), (["what does a postman do", "who brings the letters", "who brings the mail"], ["the postman brings letters and parcels."]), (["who bakes bread"], ["a baker bakes bread."]), (["who flies a plane"], ["a pilot flies a plane."]), (["who puts out fires"], ["firefighters put out fires."]), (["who grows food", "who works on a farm"], ["a farmer does."]), (["who helps sick people"], ["doctors and nurses do."]), (["who repairs teeth"], ["a dentist does."]),
    (["how do you say hello in {Spanish}"], ["hello in Spanish is hola."]), (["how do you say hello in French"], ["hello in French is bonjour."]), (["how do you say hello in German"], ["hello in German is hallo."]), (["how do you say thank you in French"], ["thank you in French is merci."]), (["how do you say thank you in Spanish"], ["thank you in Spanish is gracias."]), (["how do you say thank you in German"], ["thank you in German is danke."]), (["how do you say goodbye in {Italian}"], ["goodbye in Italian is arrivederci."]),
    (["what comes first, the chicken or the egg", "what came first, the chicken or the egg"], ["nobody agrees on that! people like to argue about it."]), (["what is the opposite of everything"], ["nothing is the opposite of everything."]), (["do fish sleep", "do fishes sleep"], ["yes, fish rest too, but most of them keep their eyes open."]), (["do trees sleep"], ["not like we do, but many rest in winter."]), (["do plants need {light|water|sun}", "what does a plant need", "what do plants need", "what do plants need to grow"], ["plants need light, water, air and earth."]), (["do people need sleep"], ["yes, most people need about eight hours of sleep."]), (["how {long|many hours} should I sleep", "how much sleep do I need"], ["most adults need seven to nine hours of sleep."]), (["how much water should I drink"], ["about one and a half litres a day is good for most people."]),
    (["who was {Einstein|Albert Einstein}"], ["Albert Einstein was a famous scientist."]), (["who was Mozart"], ["Mozart was a famous composer from Austria."]), (["who was Shakespeare", "who wrote Romeo and Juliet"], ["Shakespeare was an English writer. he wrote Romeo and Juliet."]), (["who was Leonardo da Vinci", "who painted the Mona Lisa"], ["Leonardo da Vinci painted the Mona Lisa."]), (["who was the first man on the moon", "who was the first person on the moon"], ["Neil Armstrong was the first person on the moon."]), (["who was Columbus"], ["Columbus was a sailor who reached America in 1492."]), (["who was Newton"], ["Newton was a scientist who described gravity."]),
    (["where is the Eiffel Tower"], ["the Eiffel Tower is in Paris."]), (["where is Big Ben"], ["Big Ben is in London."]), (["where are the pyramids"], ["the famous pyramids are in Egypt."]), (["where is the Great Wall"], ["the Great Wall is in China."]), (["where is the Colosseum"], ["the Colosseum is in Rome."]), (["where is the Statue of Liberty"], ["it is in New York."]),
]


def general(g):
    asks, answers = g.pick(GENERAL)
    ask = g.pick(asks)
    lead = g.pick(["", "", "", "", "", "", "so ", "<hello>, ", "<tellme>: ", "please, ", "a question: ", "and ", "hm, "])
    return [(g.say(lead + ask + END), g.say(answers))]


INTENTS = [(6.0, "animal", animal), (1.6, "which animal", which_animal), (2.0, "compare", compare), (3.5, "can", can), (5.0, "capital", capital), (3.2, "colour", colour),
           (4.0, "calendar", calendar), (8.0, "arithmetic", arithmetic), (4.0, "counting", counting), (10.0, "general", general)]
