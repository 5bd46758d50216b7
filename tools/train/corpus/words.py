"""Words: opposites, meanings, lists, rhymes, plurals, spelling of simple facts about language."""
from .facts import ANIMALS, END, NUM, plural

OPPOSITES = """hot cold|big small|tall short|long short|fast slow|happy sad|day night|good bad|up down|left right|open closed|full empty
hard soft|heavy light|dark light|old young|new old|rich poor|strong weak|wet dry|clean dirty|early late|loud quiet|near far|high low
black white|yes no|in out|inside outside|first last|begin end|start stop|give take|buy sell|win lose|love hate|laugh cry|push pull
come go|above below|front back|wide narrow|thick thin|deep shallow|sweet sour|true false|right wrong|easy difficult|safe dangerous
brave afraid|kind mean|smooth rough|sharp blunt|always never|all nothing|more less|many few|before after|morning evening|summer winter
man woman|boy girl|king queen|brother sister|friend enemy|question answer|north south|east west|awake asleep|alive dead|bright dark
cheap expensive|clever stupid|polite rude|warm cool|lost found|remember forget|arrive leave|float sink|sunny rainy|over under|best worst|war peace|top bottom""".replace("\n", "|").split("|")
OPPOSITES = [tuple(p.split()) for p in OPPOSITES]


def opposite(g):
    a, b = g.pick(OPPOSITES)
    if g.chance(0.5) and (a, b) not in (("tall", "short"), ("new", "old"), ("heavy", "light"), ("bright", "dark"), ("deep", "shallow")):
        a, b = b, a
        if a in ("short", "old", "light", "dark", "right"):
            a, b = b, a
    q = g.say("{what is the opposite of <a>|what's the opposite of <a>|<tellme> the opposite of <a>|which word is the opposite of <a>|opposite of <a>|give me the opposite of <a>|the opposite of <a> is|what is the contrary of <a>|what word means the opposite of <a>|what is the opposite word of <a>}" + END, a=a)
    turns = [(q, g.say(["the opposite of <a> is <b>.", "the opposite of <a> is <b>.", "it is <b>.", "<b>."], a=a, b=b))]
    if g.chance(0.2):
        a, b = g.pick(OPPOSITES)
        turns.append((g.say("{and of|and|what about} <a>?", a=a), g.say("the opposite of <a> is <b>.", a=a, b=b)))
    return turns


MEANINGS = {
    "friend": "a person that you like and trust", "family": "a group of people who belong together, like parents and children", "house": "a building where people live", "school": "a place where children learn", "hospital": "a place where ill people get help",
    "library": "a place with many books that you can borrow", "museum": "a place where you can look at art or old things", "kitchen": "the room where people cook", "garden": "a piece of land where plants grow", "forest": "a large place with many trees",
    "desert": "a very dry place with little rain", "island": "land with water all around it", "mountain": "a very high piece of land", "river": "water that flows through the land to the sea", "lake": "a large piece of water with land around it",
    "ocean": "a very large sea", "village": "a small group of houses in the country", "city": "a very large town", "street": "a road with houses", "bridge": "something that carries a road over a river", "tree": "a tall plant with a trunk and branches",
    "flower": "the colourful part of a plant", "seed": "the small part of a plant from which a new plant grows", "fruit": "the sweet part of a plant with the seeds inside", "vegetable": "a plant that we eat, like a carrot", "bread": "a food baked from flour and water",
    "soup": "a warm food that you eat with a spoon", "breakfast": "the first meal of the day", "lunch": "the meal in the middle of the day", "dinner": "the meal in the evening", "book": "many pages with words or pictures, bound together", "poem": "a short text with rhythm and often with rhymes",
    "story": "a telling of things that happened, real or made up", "song": "music with words", "music": "sounds that are put together in a beautiful way", "guitar": "an instrument with six strings", "piano": "a large instrument with black and white keys", "drum": "an instrument that you hit to make a sound",
    "computer": "a machine that works with information", "robot": "a machine that can do some work by itself", "phone": "a device to talk to people who are far away", "internet": "a network that connects computers all over the world", "language model": "a program that has learned to continue text, like me",
    "car": "a machine with four wheels that carries people", "train": "a row of wagons that runs on rails", "bicycle": "a vehicle with two wheels that you move with your feet", "boat": "a thing that carries people over water", "plane": "a machine that flies and carries people", "clock": "a thing that shows the time",
    "mirror": "a glass in which you can see yourself", "umbrella": "a thing that keeps the rain off you", "key": "a small thing that opens a lock", "lamp": "a thing that gives light", "chair": "a seat for one person", "table": "a flat board on legs", "window": "an opening in a wall with glass in it", "door": "the thing that you open to go into a room",
    "bed": "a soft place to sleep", "blanket": "a warm cover for the bed", "coat": "warm clothes to wear outside", "hat": "something that you wear on your head", "shoe": "something that you wear on your foot", "money": "what we use to buy things", "job": "the work that a person does", "doctor": "a person who helps people who are ill",
    "teacher": "a person who helps others to learn", "king": "a man who rules a country", "queen": "a woman who rules a country, or the wife of a king", "country": "a land with its own government", "capital": "the city where the government of a country sits", "map": "a drawing that shows where places are", "language": "the words that people use to speak with each other",
    "word": "a group of letters with a meaning", "sentence": "a group of words that says something", "question": "something you ask because you want to know the answer", "number": "something that tells how many", "triangle": "a shape with three sides", "square": "a shape with four equal sides", "circle": "a round shape", "rectangle": "a shape with four sides and four right corners",
    "cube": "a solid shape with six square faces", "week": "seven days", "month": "about thirty days", "year": "the time in which the earth goes once around the sun", "season": "a part of the year, like spring or winter", "weather": "what the sky and the air are like, for example sunny or rainy", "storm": "weather with strong wind and often rain",
    "volcano": "a mountain that can throw out hot melted rock", "earthquake": "a shaking of the ground", "shadow": "the dark shape that appears when something blocks the light", "dream": "the pictures and stories in your head while you sleep", "idea": "a thought about something new", "secret": "something that only a few people know", "promise": "saying that you will surely do something",
    "courage": "doing something although you are afraid", "kindness": "being good and helpful to others", "patience": "being able to wait calmly", "happiness": "the good feeling of being glad", "love": "a deep and warm feeling for someone", "fear": "the feeling that something bad may happen", "anger": "the strong feeling when something is not right", "friendship": "the bond between friends",
    "honesty": "telling the truth", "hope": "the feeling that something good will come", "peace": "a time without war or quarrel", "freedom": "being able to choose for yourself", "time": "what clocks measure, from the past to the future", "hobby": "something that you like to do in your free time", "holiday": "a time when you do not have to work", "party": "a meeting of people to have fun",
    "birthday": "the day on which you were born", "present": "something nice that you give to someone", "game": "something that you play for fun", "joke": "a short story that makes people laugh", "riddle": "a tricky question that is fun to solve", "recipe": "a text that tells you how to cook something", "mammal": "an animal that drinks milk when it is young", "insect": "a small animal with six legs",
    "reptile": "an animal with dry scales, like a snake", "pet": "an animal that lives with people", "farm": "a place where food is grown and animals are kept", "zoo": "a place where people can look at many animals", "nest": "the home that a bird builds", "wool": "the soft hair of a sheep", "gold": "a yellow and precious metal", "iron": "a hard and strong metal", "wood": "the hard stuff that trees are made of",
    "glass": "a hard material that you can see through", "sand": "very small grains of stone", "fire": "the heat and light of something that burns", "smoke": "the grey cloud that comes from a fire", "dust": "very fine dry dirt", "mud": "wet and soft earth", "snowman": "a figure made of snow", "unicorn": "a horse with one horn that lives only in stories", "dragon": "a large animal in stories that breathes fire", "castle": "a large and strong old building with thick walls",
    "neighbour": "a person who lives near you", "grandmother": "the mother of your mother or father", "uncle": "the brother of your mother or father", "aunt": "the sister of your mother or father", "cousin": "the child of your uncle or aunt", "baby": "a very young child", "alphabet": "all the letters of a language in order", "letter": "a sign of the alphabet, or a message on paper", "gravity": "the force that pulls things towards the earth",
    "electricity": "a kind of energy that runs lamps and machines", "energy": "the power to do something", "science": "finding out how the world works", "history": "the story of what happened in the past", "art": "beautiful or interesting things that people make", "democracy": "a way of ruling in which the people choose", "planet": "a large ball that goes around a star", "star": "a huge ball of hot gas, far away",
}
MASS = {"bread", "music", "money", "weather", "courage", "kindness", "patience", "happiness", "love", "fear", "anger", "friendship", "honesty", "hope", "peace", "freedom", "time", "wool", "gold", "iron", "wood", "glass", "sand", "fire", "smoke", "dust", "mud",
        "gravity", "electricity", "energy", "science", "history", "art", "democracy", "soup", "breakfast", "lunch", "dinner", "internet"}


def meaning(g):
    w = g.pick(list(MEANINGS))
    s = dict(w=w, m=MEANINGS[w], a=w if w in MASS else "a " + w)
    if w == "internet":
        s["a"] = "the internet"
    q = g.say("{what is <a>|what is <a>|what does {the word |}<w> mean|what is the meaning of <w>|<tellme> what <a> is|explain <w>|define <w>|what is meant by <w>|can you explain <w>|explain the word <w>|what do people mean by <w>|can you explain what <a> is|do you know what <a> is|in simple words, what is <a>}" + END, **s)
    return [(q, g.say(["<a> is <m>.", "<a> is <m>.", "it is <m>.", "<a>: that is <m>."][:3], **s))]


LISTS = {
    "fruits": "apple banana pear cherry orange grape lemon plum peach strawberry melon mango kiwi", "vegetables": "carrot potato onion tomato cucumber pea bean cabbage pepper spinach pumpkin leek",
    "animals": "dog cat horse cow lion elephant bear rabbit fox mouse tiger monkey", "farm animals": "cow pig sheep goat horse hen duck donkey", "birds": "owl eagle duck swan parrot penguin sparrow crow robin", "insects": "bee ant fly butterfly beetle wasp mosquito ladybird",
    "fish": "salmon trout tuna shark carp herring", "trees": "oak pine birch maple willow apple-tree beech", "flowers": "rose tulip daisy lily sunflower violet poppy", "colours": "red blue green yellow orange purple brown black white pink",
    "countries": "France Italy Spain Japan Brazil Egypt Canada India Norway Mexico", "cities": "Paris London Rome Berlin Tokyo Madrid Cairo Vienna Lisbon Oslo", "sports": "football tennis swimming running basketball volleyball skiing cycling", "instruments": "piano guitar violin drum flute trumpet harp",
    "drinks": "water milk tea coffee juice lemonade cocoa", "pieces of furniture": "table chair bed sofa shelf desk cupboard", "clothes": "shirt coat hat sock shoe scarf dress sweater", "tools": "hammer saw screwdriver drill spade axe", "jobs": "baker doctor teacher farmer pilot cook nurse carpenter painter",
    "planets": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune", "shapes": "circle square triangle rectangle star oval", "metals": "gold silver iron copper tin lead", "vehicles": "car bus train bicycle boat plane truck tram", "parts of the body": "head arm leg hand foot eye ear nose knee",
    "rooms": "kitchen bathroom bedroom hall cellar", "languages": "English French Spanish German Italian Chinese Arabic Hindi", "feelings": "joy anger fear love hope surprise", "pets": "dog cat rabbit hamster parrot goldfish", "wild animals": "lion wolf bear tiger elephant fox deer", "toys": "ball doll kite puzzle train drum",
    "months": "January February March April May June July August", "days": "Monday Tuesday Wednesday Thursday Friday Saturday", "sea animals": "whale dolphin shark crab octopus seal", "things in a kitchen": "pot pan spoon knife plate cup oven", "things in a school": "book pencil board desk map chalk", "green things": "grass leaf frog cucumber pea lime", "red things": "tomato cherry strawberry rose blood",
    "yellow things": "banana lemon sun butter sunflower", "round things": "ball wheel coin sun orange", "cold things": "ice snow ice-cream winter frost", "hot things": "fire sun oven lava soup", "sweet things": "honey sugar cake chocolate candy", "names for a dog": "Rex Bella Rusty Coco Max Luna", "names for a cat": "Luna Moss Pepper Coco Tiger Whiskers", "names for a horse": "Star Thunder Bella Storm Ruby", "hobbies": "reading painting dancing cooking fishing hiking singing",
    "continents": "Africa Asia Europe Australia Antarctica", "rivers": "Nile Amazon Danube Rhine Ganges Thames", "oceans": "Pacific Atlantic Indian Arctic", "breakfast foods": "bread eggs oats honey yogurt toast", "desserts": "cake pie pudding ice-cream cookies", "board games": "chess checkers ludo dominoes",
}
KEEP = {"countries", "cities", "sports", "drinks", "clothes?", "colours", "planets", "metals", "languages", "feelings", "months", "days", "cold things", "hot things", "sweet things", "names for a dog", "names for a cat", "names for a horse", "hobbies", "continents", "rivers", "oceans", "breakfast foods", "desserts", "board games", "fish", "red things", "yellow things", "green things", "fruits?", "rooms?"}
SINGLE = {"fruits": "fruit", "vegetables": "vegetable", "animals": "animal", "farm animals": "farm animal", "birds": "bird", "insects": "insect", "trees": "tree", "flowers": "flower", "colours": "colour", "countries": "country", "cities": "city", "sports": "sport", "drinks": "drink", "tools": "tool", "jobs": "job",
          "planets": "planet", "metals": "metal", "vehicles": "vehicle", "languages": "language", "pets": "pet", "toys": "toy", "instruments": "instrument", "wild animals": "wild animal", "sea animals": "sea animal", "shapes": "shape"}


def items(kind):
    return [x.replace("-", " ") for x in LISTS[kind].split()]


def name_some(g):
    kind = g.pick(list(LISTS))
    pool = items(kind)
    if kind in SINGLE and g.chance(0.15):
        one = SINGLE[kind]
        x = g.pick(pool)
        q = g.say("{name a <k>|tell me a <k>|give me a <k>|give me an example of a <k>|can you name a <k>|name one <k>|do you know a <k>|which <k> do you know}{|?|.}", k=one)
        thing = x if kind in KEEP else "a " + x
        return [(q, g.say(["<x>.", "<x> is a <k>.", "for example, <x>."], x=thing, k=one))]
    n = min(g.rng.choice([2, 3, 3, 3, 3, 4, 4, 5, 5]), len(pool))
    take = g.some(pool, n)
    q = g.say("{name <n> <k>|tell me <n> <k>|give me <n> <k>|list <n> <k>|can you name <n> <k>|can you tell me <n> <k>|please name <n> <k>|what are <n> <k>|I need <n> <k>|say <n> <k>|could you list <n> <k>|give me a list of <n> <k>|write down <n> <k>|name me <n> <k>|think of <n> <k>|do you know <n> <k>}{|?|.|}", n=number_word(g, n), k=kind)
    if g.chance(0.2):
        q = g.say("{name some <k>|tell me some <k>|what <k> do you know|which <k> do you know|give me some <k>|list some <k>|can you name some <k>|give me examples of <k>|do you know some <k>}{|?|.|}", k=kind)
    style = g.rng.random()
    if style < 0.6:
        a = g.join(take) + "."
    elif style < 0.85:
        a = f"Here are {NUM[n]} {kind}: {g.join(take)}."
    else:
        a = "\n".join(f"{i + 1}. {x}" for i, x in enumerate(take))
    turns = [(q, a[0].upper() + a[1:])]
    left = [x for x in pool if x not in take]
    if left and g.chance(0.15):
        turns.append((g.say("{one more|another one|more|and one more|can you name another one}{?|}"), g.say("<x>.", x=g.pick(left))))
    return turns


def number_word(g, n):
    return NUM[n] if g.chance(0.75) else str(n)


RHYMES = ["cat hat mat bat", "dog fog log frog", "house mouse", "tree bee sea key", "sun run fun", "moon spoon soon", "star car far", "cake lake snake", "ball wall tall fall", "book hook cook look", "light night bright right", "rain train plane", "king ring sing thing", "boat coat goat", "bed red head bread", "day play say way", "fish dish wish", "box fox socks", "bear chair hair", "snow go slow", "sky fly high", "hand land sand", "door floor four", "blue shoe two", "nose rose toes", "heart part start", "mice ice nice rice", "sleep deep sheep", "song long strong", "rock clock sock"]


def rhyme(g):
    group = g.pick(RHYMES).split()
    a, b = g.some(group, 2)
    q = g.say("{what rhymes with <a>|which word rhymes with <a>|give me a rhyme for <a>|<tellme> a word that rhymes with <a>|find a rhyme for <a>|what word rhymes with <a>|can you find a rhyme for <a>|a rhyme for <a>, please}" + END, a=a)
    if g.chance(0.25):
        other = g.pick([r for r in RHYMES if r.split()[0] not in group]).split()
        if g.chance(0.5):
            return [(g.say("{do <a> and <b> rhyme|does <a> rhyme with <b>}?", a=a, b=b), g.say("yes, <a> and <b> rhyme.", a=a, b=b))]
        c = g.pick(other)
        return [(g.say("{do <a> and <b> rhyme|does <a> rhyme with <b>}?", a=a, b=c), g.say("no, but <a> and <b> rhyme.", a=a, b=b))]
    return [(q, g.say(["<b> rhymes with <a>.", "<a> rhymes with <b>.", "<b>."], a=a, b=b))]


PAST = dict(p.split() for p in "go went|eat ate|see saw|run ran|sing sang|swim swam|write wrote|come came|give gave|take took|sleep slept|fly flew|drink drank|speak spoke|think thought|buy bought|find found|make made|know knew|begin began|walk walked|play played|laugh laughed|jump jumped|cook cooked|dance danced|live lived|love loved|say said|tell told|have had|is was|get got|bring brought|fall fell|build built".split("|"))
IRREGULAR = {"child": "children", "man": "men", "woman": "women", "foot": "feet", "tooth": "teeth", "goose": "geese", "person": "people", "leaf": "leaves", "knife": "knives", "baby": "babies", "city": "cities", "box": "boxes", "bus": "buses", "house": "houses", "tree": "trees", "book": "books", "car": "cars", "apple": "apples", "tomato": "tomatoes", "potato": "potatoes", "story": "stories", "party": "parties", "wish": "wishes", "dish": "dishes", "day": "days", "key": "keys", "flower": "flowers", "star": "stars", "friend": "friends"}
SYNONYMS = {"happy": "glad", "big": "large", "small": "little", "fast": "quick", "smart": "clever", "begin": "start", "end": "finish", "beautiful": "pretty", "angry": "furious", "sad": "unhappy", "nice": "kind", "cold": "chilly", "tired": "sleepy", "funny": "amusing", "quiet": "silent", "afraid": "scared", "rich": "wealthy", "easy": "simple", "hard": "difficult", "gift": "present", "ill": "sick", "home": "house", "shout": "yell", "shut": "close", "correct": "right", "strange": "odd", "brave": "bold"}


def language(g):
    r = g.rng.random()
    if r < 0.45:
        if g.chance(0.6):
            w = g.pick(list(IRREGULAR))
            p = IRREGULAR[w]
        else:
            w = g.pick(list(ANIMALS))
            p = plural(w)
        return [(g.say("{what is the plural of <w>|<tellme> the plural of <w>|plural of <w>|what do you call more than one <w>|give me the plural of <w>|one <w>, two what}" + END, w=w), g.say(["the plural of <w> is <p>.", "one <w>, two <p>.", "it is <p>."], w=w, p=p))]
    if r < 0.75:
        w = g.pick(list(PAST))
        return [(g.say("{what is the past {tense |form |}of <w>|<tellme> the past {tense |}of <w>|past tense of <w>|give me the past tense of <w>|what is <w> in the past tense}" + END, w=w), g.say(["the past tense of <w> is <p>.", "it is <p>."], w=w, p=PAST[w]))]
    w = g.pick(list(SYNONYMS))
    return [(g.say("{what is another word for <w>|give me another word for <w>|<tellme> another word for <w>|which word means the same as <w>|what is a synonym {of|for} <w>|another word for <w>, please|give me a synonym for <w>}" + END, w=w), g.say(["another word for <w> is <p>.", "you can say <p>.", "<p> means almost the same."], w=w, p=SYNONYMS[w]))]


def finish(g):
    table = [("roses are red, violets are", "Blue!"), ("one, two,", "Three!"), ("one, two, three,", "Four!"), ("twinkle, twinkle, little", "Star!"), ("ready, steady,", "Go!"), ("the early bird catches the", "Worm!"), ("Monday, Tuesday,", "Wednesday!"), ("knock knock", "Who is there?"), ("A, B, C,", "D!"), ("ten, nine, eight,", "Seven!"), ("two, four, six,", "Eight!"), ("spring, summer, autumn,", "Winter!"),
             ("January, February,", "March!"), ("an apple a day keeps the", "Doctor away!"), ("better late than", "Never!"), ("practice makes", "Perfect!"), ("time is", "Money!"), ("home sweet", "Home!"), ("a cow says", "Moo!"), ("a cat says", "Meow!"), ("a dog says", "Woof!"), ("the sky is", "Blue."), ("grass is", "Green."), ("snow is", "White."), ("ice is", "Cold."), ("fire is", "Hot."), ("salt and", "Pepper!"), ("bread and", "Butter!"), ("day and", "Night!"), ("mother and", "Father!"), ("king and", "Queen!"), ("black and", "White!"), ("fish and", "Chips!"), ("the sun is a", "Star."), ("5, 10, 15,", "20!"), ("1, 2, 3,", "4!"), ("10, 20, 30,", "40!")]
    q, a = g.pick(table)
    q = g.say("{<q> ...|finish the sentence: <q> ...|complete: <q> ...|what comes next: <q> ...|continue: <q> ...|complete the sentence: <q> ...}", q=q)
    return [(q, a)]


INTENTS = [(3.0, "opposite", opposite), (6.5, "meaning", meaning), (10.0, "lists", name_some), (1.3, "rhyme", rhyme), (2.2, "language", language), (1.0, "finish", finish)]
