"""Short stories and poems."""
from .lexicon import BOYS, GIRLS, PETS

ANIMALS = ["fox", "rabbit", "bear", "mouse", "cat", "dog", "duck", "frog", "owl", "hedgehog", "squirrel",
           "turtle", "pig", "lamb", "goat", "pony", "elephant", "lion", "monkey", "penguin", "dragon",
           "bird", "bee", "snail", "fish", "kitten", "puppy", "wolf", "deer", "otter", "mole", "robot",
           "whale", "crab", "badger", "donkey", "hen", "tiger", "giraffe", "panda"]
PEOPLE = ["girl", "boy", "princess", "prince", "farmer", "baker", "sailor", "gardener", "pirate", "knight",
          "wizard", "fisherman", "clockmaker", "painter"]
THINGS = ["ball", "kite", "key", "hat", "book", "lamp", "drum", "bell", "boat", "scarf", "map", "cup",
          "coin", "whistle", "blanket", "box", "ring", "spoon", "button", "teddy bear", "red balloon",
          "wooden horse", "music box", "pencil", "umbrella"]
PLACES = ["forest", "village", "garden", "farm", "town", "valley", "harbour", "meadow", "castle", "island",
          "mountain", "beach", "river", "old mill", "lake", "hill", "orchard", "city"]
AT = {"forest": "in a quiet forest", "village": "in a small village", "garden": "in a big garden",
      "farm": "on a farm", "town": "in a little town", "valley": "in a green valley",
      "harbour": "near the harbour", "meadow": "in a sunny meadow", "castle": "in an old castle",
      "island": "on a small island", "mountain": "high on a mountain", "beach": "near the beach",
      "river": "beside a river", "old mill": "behind the old mill", "lake": "by a blue lake",
      "hill": "on top of a hill", "orchard": "in an apple orchard", "city": "in a busy city"}
SKILLS = [("swim", "swimming", "water"), ("ride a bike", "riding", "bike"), ("sing", "singing", "song"),
          ("bake bread", "baking", "bread"), ("paint", "painting", "picture"), ("dance", "dancing", "dance"),
          ("skate", "skating", "ice"), ("play the drum", "drumming", "drum"), ("read", "reading", "book"),
          ("climb", "climbing", "tree"), ("whistle", "whistling", "tune"), ("juggle", "juggling", "balls")]
FEARS = [("the dark", "night"), ("thunder", "storm"), ("deep water", "river"), ("high places", "tower"),
         ("loud noises", "thunder"), ("the big dog next door", "dog"), ("shadows", "shadow")]
TRAITS = ["kind", "curious", "brave", "shy", "cheerful", "clever", "gentle", "patient", "lonely", "playful",
          "careful", "quiet"]

OPENING = [
    "{once upon a time|long ago|one day|many years ago}, <at>, there {lived|was} a <trait> {little|young|small} <who> {named|called} <N>.",
    "<N> was a <trait> {little|young|small} <who> who lived <at>.",
    "there was once a <trait> <who> {named|called} <N> who lived <at>.",
    "<at>, there lived a <trait> <who>. <His> name was <N>.",
    "once there was a {little|small|young} <who> {named|called} <N>. <N> lived <at> and was very <trait>.",
]

# Each plot is a list of paragraphs' sentences; every entry is a template.
PLOTS = {
    "lost": [
        "<N> had a <adj> <thing> that <he> {loved very much|took everywhere|had got from <his> grandmother}.",
        "{one morning|one <weather> day|one day}, the <thing> was gone. {<N> looked under the bed, but it was not there.|<N> looked everywhere, but could not find it.|<N> looked behind the door and inside every box.}",
        "{<N> felt so sad that <he> began to cry.|<N> sat down and sighed.|<N> did not know what to do.}",
        "then <F> the <friend> came by. \"{why are you so sad|what is wrong|what happened}?\" asked <F>. \"{I lost my <thing>|my <thing> is gone|I cannot find my <thing>},\" said <N>.",
        "\"{do not worry|let us look together|I will help you},\" said <F>. {together they searched the whole day.|they walked back along the path, step by step.|they followed the small footprints in the mud.}",
        "{at last they saw something shine under a bush. it was the <thing>!|at last they found the <thing> in an old nest high in a tree.|in the end they found the <thing> behind a big stone.}",
        "<N> {laughed and hugged <F>|was so happy that <he> danced|thanked <F> with all <his> heart}. {from that day on, they were best friends.|\"a friend is better than any <thing>,\" said <N>.|that evening they shared a warm cake and told the story again and again.}",
    ],
    "way home": [
        "{one <weather> day|one afternoon|one morning}, <N> went for a walk to {pick berries|look for flowers|see the world|find some mushrooms}.",
        "<he> walked and walked, and soon <he> did not know the way home. {the trees were tall and the path was dark.|everything looked strange.|the sun was going down.}",
        "\"{oh dear, I am lost|where am I|how will I get home}?\" {said|whispered} <N>. <he> {felt very small|was a little afraid|wanted to cry}.",
        "{just then|suddenly|after a while}, a <friend> {came out from behind a tree|hopped onto the path|looked down from a branch}. \"I am <F>,\" said the <friend>. \"{are you lost|do you need help|can I help you}?\"",
        "\"yes, please,\" said <N>. <F> {knew every path|knew the way well|had a good nose} and {led <N> past the stream and over the bridge|walked with <N> the whole way|showed <N> how to follow the stars}.",
        "{soon they saw a light in a window.|at last they saw smoke from a chimney.|before long, <N> saw the roof of <his> home.} \"{I am home|there it is},\" {cried|shouted} <N>.",
        "{<N> invited <F> in for warm soup, and they laughed until it was late.|<N> thanked <F> and promised to visit soon.|after that, <N> and <F> went on walks together, and nobody was ever lost again.}",
    ],
    "fear": [
        "<N> was afraid of <fear>. {<he> did not tell anyone.|every time, <he> hid under a blanket.|the others did not understand it.}",
        "one {evening|night|day}, <N> heard {a small cry for help|someone calling|a weak voice} outside. it was <F>, the {little|small|young} <friend>, who {was stuck in a hole|had hurt a leg|was caught in a thorn bush}.",
        "<N> {was shaking|wanted to run away|felt <his> heart beat fast}. {but <F> needed help.|but nobody else was there.|but a friend is a friend.}",
        "<N> took a deep breath. \"{I am afraid, but I will go|I can do this|one step, and then one more},\" <he> said.",
        "{step by step|slowly|very carefully}, <N> went out and {pulled <F> free|helped <F> up|carried <F> home}. {it was not as bad as <he> had thought.|<fear> did not seem so terrible now.}",
        "\"{you are so brave|thank you, you saved me},\" said <F>. <N> smiled. \"{being brave does not mean that you are never afraid|I was afraid, but I did it anyway|helping you was more important than my fear},\" <he> said.",
        "{from then on, <N> was not so afraid of <fear> any more.|that night <N> slept well and had a good dream.|and <N> knew that <he> was stronger than <he> had thought.}",
    ],
    "sharing": [
        "one {cold|<weather>} day, <N> had only {one piece of bread|one apple|a small bowl of soup|a few berries} left for {lunch|dinner}.",
        "just as <he> {sat down to eat|took the first bite}, a {thin|hungry|tired} <friend> came {to the door|along the road}. \"{please, I have not eaten all day|I am so hungry},\" said the <friend>.",
        "<N> {thought for a moment|looked at the food|was hungry too}. then <he> {broke it in two|smiled} and said, \"{come, we will share|half of it is for you|sit down and eat with me}.\"",
        "{they ate together and talked like old friends.|the food was small, but it tasted very good.} the <friend>'s name was <F>.",
        "{weeks later|when winter came|some time later}, {the snow was deep and <N> had nothing to eat|a storm broke the roof of <N>'s house|<N> became ill and could not get up}. {there was a knock at the door.|then <he> heard a voice.}",
        "it was <F>, {with a basket full of food|with many friends and a big pot of soup|with a warm blanket and some honey}. \"{you helped me, so now I help you|I did not forget you|now it is my turn to share},\" said <F>.",
        "{<N> was never lonely again.|and so <N> learned that kindness comes back.|they ate together by the fire and were happy.}",
    ],
    "learning": [
        "more than anything, <N> wanted to learn to <skill>. {but it was not easy.|all <his> friends could do it already.}",
        "the first time <he> tried, {<he> fell down at once|everything went wrong|it was a mess}. {everybody laughed.|<N> turned red.|\"I will never learn it,\" said <N>.}",
        "but old <F> the <friend> {watched and smiled|had seen it all}. \"{nobody can do it on the first day|try again tomorrow, and the day after that|small steps are steps too},\" said <F>.",
        "so <N> practised {every morning|every day after breakfast|day after day}. {sometimes it went well, and sometimes it did not.|some days <he> wanted to stop, but <he> did not.}",
        "{after a few weeks|one <weather> morning|at last}, something happened. <N> {could really do it|did it without one mistake|was <skilling> all alone}!",
        "{everybody clapped and cheered.|\"look at me!\" cried <N>.|<F> clapped the loudest.}",
        "\"{now you know the secret|you see|well done},\" said <F>. \"{you only fail if you stop trying|practice makes it easy|it was hard, and then it was not}.\" {<N> was very proud.|and <N> smiled all the way home.}",
    ],
    "rainy day": [
        "it had been raining for {three days|a whole week|a long time}, and <N> was bored. \"{there is nothing to do|I cannot go out|all my games are old},\" <he> said.",
        "then <he> found {a big empty box|an old sheet and two chairs|a pile of old boards} {in the corner|in the cellar|under the stairs}. <N> had an idea.",
        "{\"this is not just a box,\" said <N>. \"this is a ship!\"|<he> began to build a castle with a tower and a gate.|<he> painted it blue and made it into a rocket.}",
        "<F> the <friend> came to see. \"{may I play too|can I come along|is there room for me}?\" \"of course,\" said <N>. \"{you can be the captain|every ship needs a crew|we will go together}.\"",
        "they {sailed over wild seas|flew to the moon|fought off a {terrible|silly} dragon} and {found an island of gold|met a king made of cake|ate biscuits for supplies}. {all of it was in the living room.|they laughed so much that they forgot the rain.}",
        "when they looked out of the window, {the sun was shining|the rain had stopped|there was a rainbow}. \"{we can go out|the sun is out},\" said <F>. \"{not yet|in a minute},\" said <N>. \"{we are not home yet|first we must finish our trip}.\"",
    ],
    "rescue": [
        "one {<weather> morning|day after a storm|evening}, <N> found a {small bird with a broken wing|tiny mouse that was cold and wet|young swallow that could not fly} {on the ground|under a tree|beside the path}.",
        "\"{poor little thing|you must be cold|do not be afraid},\" said <N>. <he> {carried it home very gently|made a soft bed in a box|wrapped it in a warm scarf}.",
        "{every day|each morning}, <N> gave it water and {seeds|crumbs|a little food}. {at night <he> sang to it softly.|<he> talked to it so that it would not feel alone.} <N> called it <F>.",
        "{day by day|slowly|week by week}, <F> grew stronger. {one day it began to hop around the room.|soon it could move again without pain.}",
        "then the day came when <F> was well. <N> opened the window. {\"you are free now,\" <he> said, and <his> eyes were wet.|it was hard to say goodbye.}",
        "<F> {looked back once and was gone|made one happy circle in the air and disappeared|ran into the tall grass}. {the room was very quiet.|<N> was sad and happy at the same time.}",
        "but {the next spring|the next morning|a few days later}, <N> heard a small sound {at the window|outside}. it was <F>, {and it had brought a friend|who had come back to say hello|with a flower as a present}!",
    ],
    "seed": [
        "one day, <N> {found a strange seed|got a seed from an old <friend> named <F>|bought a tiny seed for one coin}. \"{what will it become?|is that all?|what a small thing!}\" said <N>.",
        "<he> {put it in the earth|planted it in a pot} and gave it water. {the next day <he> looked, but there was nothing.|then <he> waited.}",
        "a week went by, and still there was only brown earth. {the others laughed at <N>.|\"it is only a stone,\" the others said.} but <N> {did not give up|kept on watering it|was patient}.",
        "{then, one morning,|at last,|after a long time,} there was a {tiny|small} green leaf! {<N> jumped for joy.|<N> could not believe it.}",
        "the plant grew and grew. {it grew as high as the window, and then as high as the roof.|in summer it had a hundred <colour> flowers.|in autumn it was a tree full of sweet red apples.}",
        "{everybody came to see it.|bees and birds came from far away.} {\"how did you do that?\" they asked.|\"what is your secret?\" they asked.} \"{I waited|a little water and a lot of time|I just did not stop},\" said <N> with a smile.",
    ],
    "new friend": [
        "<N> had no friends yet, because <he> {was new there|was very shy|had just moved}. {every day <he> watched the others play.|<he> spent the days alone.}",
        "one day, <N> saw a <friend> {sitting alone on a bench|alone by the water|under a tree}. {it looked as lonely as <he> felt.|\"maybe that one is shy too,\" thought <N>.}",
        "<N> wanted to say hello, but {no word came out|<his> voice was too small|<his> knees were shaking}. so <he> {put down <his> <thing> and pushed it over|offered half of <his> sandwich|smiled}.",
        "the <friend> {smiled back|looked surprised and then laughed|took it and smiled}. \"my name is <F>,\" it said. \"{do you want to play|shall we be friends|I like your <thing>}?\"",
        "{they played until the sun went down.|they talked and talked, and it was not hard at all.|they built a small house of sticks and leaves.}",
        "{the next day|soon}, {others came to play with them too|they met again, and the day after that too}. {\"sometimes a smile is enough,\" said <N>.|<N> was not lonely any more.|and <N> never felt new again.}",
    ],
    "race": [
        "every {year|summer|spring} there was a big race <at>. {the prize was a golden <thing>.|everybody came to watch.} <N> {had trained for weeks|wanted to win so much|was not fast, but <he> wanted to try}.",
        "\"{ready, steady, go|on your marks, get set, go}!\" {and off they ran.|everybody ran as fast as they could.} <N> {was soon in front|ran and ran|was close to the first place}.",
        "then <he> heard a cry. <F> the <friend> had {fallen|tripped over a root|slipped in the mud} and could not get up. {the others ran on.|nobody stopped.}",
        "<N> looked at the finish line, and <he> looked at <F>. {it was not an easy choice.|then <he> stopped.} <he> went back and {helped <F> up|took <F> by the hand}.",
        "{together they walked over the line, last of all.|arm in arm, they came in last.} but {the crowd cheered louder than ever|everybody stood up and clapped|the old judge had tears in his eyes}.",
        "{\"the cup goes to the fastest,\" said the judge, \"but the biggest cake goes to the kindest.\"|\"you lost the race,\" said <F>, \"but you won a friend.\"} {and that was the sweetest prize of all.|<N> had never been so happy.}",
    ],
    "truth": [
        "one day, <N> was playing {with a ball|too wildly} inside the house. crash! the {blue vase|big mirror|favourite cup} of <his> {grandmother|aunt|teacher} fell and broke.",
        "{nobody had seen it.|<N> was all alone.} \"{I could say that it was the wind|I could hide the pieces|maybe nobody will notice},\" thought <N>.",
        "but {<his> stomach felt heavy, like a stone|<he> could not eat or play or sleep|the secret felt heavier every hour}. {even the sun did not make <him> happy.}",
        "\"what should I do,\" <he> asked <F> the <friend>. \"{the truth is hard for a minute, but a lie is hard for a long time|just say it|tell the truth, it is lighter to carry},\" said <F>.",
        "so <N> {went and told everything|took a deep breath and told the truth}. \"I broke it, and I am sorry,\" <he> said.",
        "{for a moment it was quiet.|<N> waited.} then came a {warm hug|smile}. \"{thank you for telling me|a thing is only a thing, but the truth is precious|I am proud of you}.\"",
        "{together they glued the pieces.|they put a flower into the part that was left.} {and <N> felt as light as a feather.|that night, <N> slept very well.}",
    ],
    "wishes": [
        "one {evening|day}, <N> found an old <thing> {in the sand|in the attic|under a root}. when <he> {cleaned|touched} it, {a tiny spirit came out|it began to glow|a soft voice spoke}. \"{you have one wish|I will give you one wish|wish for something, but choose well}.\"",
        "<N> thought about {gold|a big house|a mountain of cake|a crown}. {\"what would I do with it all?\" <he> wondered.|that would be nice, for a day or two.}",
        "then <he> saw <F> the <friend>, who <need>.",
        "\"I know what I want,\" said <N>. \"<wish>.\"",
        "{there was a flash of light|the air smelled of flowers|a small bell rang}, and the wish came true. {<F> laughed for the first time in years.|<F> could hardly believe it.}",
        "\"{that was the best wish that I have ever heard|most people wish for gold|you did not ask for anything for yourself},\" said the voice. \"{so you may keep the <thing>|so good luck will follow you|I will always be near}.\"",
        "{and when <N> looked at <F>, <he> knew that <he> had chosen well.|<N> did not need another wish.}",
    ],
    "moon": [
        "every night, <N> looked up at the {moon|stars|brightest star}. \"{I want to touch it|I wonder what it is like up there|I want to go there},\" <he> said.",
        "so one night, <N> {climbed the highest hill|built a very long ladder|climbed the tallest tree}. {but the sky was still far away.|but it was not high enough.}",
        "<F> the <friend> was awake too. \"{what are you doing up here|why are you not asleep}?\" \"{I want to catch the moon|I want to bring home a star},\" said <N>.",
        "<F> {thought about it|smiled}. \"{come with me|I will show you something},\" <F> said, and led <N> {to the pond|to the lake|down to the water}.",
        "there, in the still water, {was the moon, round and bright|were all the stars}. {<N> touched it with one finger, and it danced.|it was so close that <N> could touch it.}",
        "\"{so it is here too|now I have touched the sky},\" {whispered|said} <N>. {they sat there for a long time and did not say anything.|the night was soft and quiet.}",
        "{then <N> went home to bed, and the moon shone through the window all night.|<N> yawned, went home, and slept until morning.}",
    ],
    "birthday": [
        "it was <N>'s birthday, but {nobody said anything|nobody seemed to remember}. {at breakfast, everybody was busy.|the whole house was quiet.}",
        "<N> went to see <F> the <friend>. \"{do you know what day it is|guess what day it is today}?\" <he> asked. \"{it is a normal day|Tuesday, I think|no time, no time},\" said <F> and {closed the door|ran off}.",
        "{<N> walked slowly along the path.|<N> sat down by the water and threw small stones.} \"{everybody forgot me|nobody remembers},\" <he> said.",
        "when it became dark, <N> went home. {the house was dark too.|there was no light in the window.} <he> opened the door.",
        "\"surprise!\" {shouted all <his> friends|cried many voices}. there were {lights and a big cake|balloons everywhere and music|candles, songs and presents}. {<F> was the one who had planned it all.|<F> was holding the biggest cake in the world.}",
        "\"{did you really think that we forgot you?|we had to keep it secret!}\" laughed <F>. {<N> laughed too and blew out the candles.|<N> had to cry a little, but only because <he> was so happy.} {it was the best birthday ever.}",
    ],
    "quarrel": [
        "<N> and <F> the <friend> were best friends. but one day they both wanted the same <thing>. \"{it is mine|I saw it first|give it to me},\" said <N>. \"no, it is mine,\" said <F>.",
        "they pulled and pulled, and then {it broke|it fell into the mud|it tore in two}. {\"now look what you did!\" they both shouted.|both of them went home angry.}",
        "{for two days|for a whole week}, they did not speak. {<N> played alone, but it was not fun.|<N> missed <his> friend at breakfast, at lunch and at dinner.}",
        "\"{a <thing> is only a <thing>|a friend is worth more than a <thing>|this is silly},\" said <N> at last. <he> {picked some flowers|baked a small cake|took <his> best marble} and went to see <F>.",
        "halfway there, <he> met <F>, who was {coming to see <him>|carrying a present too}. \"I am sorry,\" they both said at the same time, and then they laughed.",
        "{together they fixed the <thing>, and they took turns.|they never found out who had seen it first, and it did not matter.} {a good friend is worth more than being right.}",
    ],
    "treasure": [
        "{in an old book|in a bottle on the shore|under a loose board}, <N> found a map with a red cross. \"{a treasure|this must be a treasure map},\" <he> cried, and ran to tell <F> the <friend>.",
        "they packed {bread and a rope|a lamp and two apples|a spade and some cheese} and {set off at once|left early in the morning}. {first they crossed a river, and then a dark wood.|the way was long, and their feet hurt.}",
        "{when <F> was tired, <N> told a funny story.|when <N> slipped, <F> held on tight.|when it rained, they shared one coat.} {they sang to keep warm.|they helped each other all the way.}",
        "at last they found the place and {dug a deep hole|lifted a heavy stone}. {there was an old chest!|there was a small wooden box!}",
        "inside there was no gold. there was only a {note|letter}. it said: \"{the best treasure is a friend who walks with you|you have already found the treasure. look beside you|whoever comes this far together is rich}.\"",
        "{<N> looked at <F>, and they both began to laugh.|\"it is true,\" said <N>.} {and they ate the last apple on the way home.|they went home with empty pockets and full hearts.}",
    ],
    "monster": [
        "everybody <at> was afraid of {the dragon|the giant|the old bear} who lived {in the cave|behind the hill|in the dark wood}. {\"it eats children,\" they said.|\"it roars all night,\" they said.}",
        "<N> {was afraid too, but also curious|wanted to know if it was true}. one {<weather> day|evening}, <he> {went to see|walked up to it on soft feet} with <F> the <friend>.",
        "{they heard a terrible sound.|the roar was very loud.} but when they came closer, <N> saw that it was not roaring. it was crying.",
        "\"why are you crying?\" asked <N>. \"{because everybody runs away from me|I have a thorn in my foot|nobody ever comes to visit me},\" it said with a deep voice. \"{and I am so alone|and I only want a friend|and it is my birthday}.\"",
        "{<N> sat down beside it.|\"we will not run away,\" said <N>.} {they played and laughed until evening.|they drank tea out of very big cups.|they told each other stories.}",
        "{the next day, <N> told everybody.|the next day, <N> brought it to the village.} {at first they were afraid, but then a child began to laugh, and soon all of them danced.|after that, it carried the children on its back, and nobody was afraid any more.}",
        "{and the nights were quiet again.|never judge someone before you have said hello.}",
    ],
    "neighbour": [
        "next to <N> lived old <F> the <friend>, who {hardly ever smiled|always closed the curtains|never said hello}. {\"how grumpy,\" the others said.}",
        "one day, <N> saw that <F> {was carrying heavy wood|could not reach the apples|was trying to fix the fence alone}. \"{may I help you|let me do that|wait, I will help}!\" said <N>.",
        "<F> {looked surprised|said nothing at first}. {then the two of them worked side by side until noon.|they worked together, and it went twice as fast.}",
        "when they were done, <F> {made hot chocolate|brought out a plate of warm cookies|opened a jar of honey}. \"{nobody has helped me for a long time|I used to have many friends, but they moved away},\" said <F>.",
        "<F> told {stories about the sea|stories about old times|jokes that were older than the house}, and <N> {listened with big eyes|laughed until <his> belly hurt}.",
        "{after that, <N> came by every week.|from that day on, the curtains were open.} {and old <F> smiled every day.|it turned out that <F> was not grumpy at all, only lonely.}",
    ],
}

CLOSING = ["the end.", "and they all lived happily.", "and that is the end of the story."]

# (his word list for pronouns)
HE = dict(he="he", his="his", him="him", He="He", His="his")
SHE = dict(he="she", his="her", him="her", He="She", His="her")


FEMALE = ("girl", "princess", "hen")
MALE = ("boy", "prince", "fisherman")


def character(g, who=None, name=None):
    """Slots for the main character."""
    if who is None:
        who = g.pick(ANIMALS) if g.chance(0.6) else g.pick(PEOPLE)
    if name in GIRLS:
        female = True
    elif name in BOYS:
        female = False
    else:
        female = who in FEMALE or (who not in MALE and g.chance(0.5))
    if name is None:
        named_pet = who in ANIMALS and g.chance(0.4)
        name = g.pick(PETS) if named_pet else g.pick(GIRLS if female else BOYS)
    return dict(SHE if female else HE, N=name, who=who)


def story(g, who=None, name=None, place=None, thing=None, friend=None, plot=None):
    """The text of one story."""
    slots = character(g, who, name)
    friend = friend or g.pick([a for a in ANIMALS if a != slots["who"]])
    F = g.pick([n for n in PETS + GIRLS + BOYS if n != slots["N"]])
    place = place or g.pick(PLACES)
    if plot is None:
        names = list(PLOTS)
        if thing is not None:
            names = ["lost", "quarrel", "wishes"]
        plot = g.pick(names)
    skill, skilling, _ = g.pick(SKILLS)
    fear, _ = g.pick(FEARS)
    need, wish = g.pick([("was always alone", "I wish that <F> will find a friend"), ("was ill", "I wish that <F> will be well again"),
                         ("had nowhere to live", "please give <F> a warm home")])
    slots.update(need=need, wish=wish.replace("<F>", F))
    slots.update(friend=friend, F=F, at=AT[place], thing=thing or g.pick(THINGS), trait=g.pick(TRAITS),
                 adj=g.pick(["red", "blue", "green", "little", "shiny", "old", "special", "beautiful", "golden"]),
                 skill=skill, skilling=skilling, fear=fear)
    parts = [g.pick(OPENING)] + PLOTS[plot]
    if plot == "race":
        parts = [parts[0]] + [parts[1].replace(" <at>", "")] + parts[2:]
    if plot == "monster":
        parts = [parts[0]] + [parts[1].replace(" <at>", " there")] + parts[2:]
    if g.chance(0.25):
        parts.append(g.pick(CLOSING))
    return g.say(" ".join(parts), **slots)


# Complete stories of a few sentences.
TINY = [
    "<N> the <who> {found|saw} a <adj> <thing>. \"{whose is this|who has lost this}?\" <he> asked. it belonged to <F> the <friend>, who {was very happy|jumped for joy}. {after that they were friends.|they shared a cake to celebrate.}",
    "<N> the <who> wanted to {fly|touch the clouds}. {<he> jumped and jumped, but it did not work.|<he> tried all day.} then <F> the <friend> {threw <him> into the air|lifted <him> up}. \"I am flying!\" cried <N>. {it was only for a moment, but <he> never forgot it.|it was the best day of the year.}",
    "it was cold, and <N> the <who> had {no coat|no home}. <F> the <friend> opened the door. \"{come in|sit by the fire},\" said <F>. {the soup was hot and the night was long.|they talked until morning.} and so <N> stayed.",
    "<N> the <who> could not sleep. {\"count the stars,\" said <F> the <friend>.|<F> the <friend> sang a quiet song.} {one, two, three, and at four <N> was asleep.|soon <N> was dreaming of the sea.} good night, little <who>.",
    "<N> the <who> baked a cake for <F> the <friend>. {it fell on the floor.|it was burned on one side.} <N> was sad, but <F> laughed. \"{it still tastes good|I like it that way},\" said <F>. {together they ate every crumb.|and it was true.}",
    "one day, <N> the <who> met <F> the <friend> on a narrow bridge. neither wanted to {step back|go first}. they stood there until {it began to rain|the sun went down}. then both laughed, {and they crossed it side by side.|and <N> carried <F> over on <his> back.}",
]


def tiny_story(g, who=None, name=None):
    slots = character(g, who, name)
    friend = g.pick([a for a in ANIMALS if a != slots["who"]])
    F = g.pick([n for n in PETS + GIRLS + BOYS if n != slots["N"]])
    return g.say(TINY, friend=friend, F=F, thing=g.pick(THINGS), adj=g.pick(["red", "blue", "little", "shiny", "golden"]), **slots)


def ask_tiny(g):
    who = g.pick(ANIMALS + PEOPLE) if g.chance(0.6) else None
    q = g.say("{{tell|write} me a {very short|tiny|mini} story<x>|a {very short|tiny|one minute} story<x>{, please| please|}|{write|tell} a story<x> in {three|four|a few|five} sentences|{can|could} you tell me a very short story<x>?|give me a tiny story<x>|a story<x>, but {keep it short|very short}}",
              x="{ about a " + who + "| with a " + who + "}" if who else " ")
    return [(q, tiny_story(g, who))]


ASK = [
    "{tell|write} me a {|short|little|nice} story",
    "{can|could|will|would} you tell me a {|short|little|nice|good} story?",
    "{please |}{tell|write|make up} a {|short|nice} story{ please|}",
    "I want {to hear |}a story",
    "do you know {a|any} {story|stories|good story}?",
    "story please", "a story, please", "I would like {to hear |}a {|bedtime |short }story", "give me a story",
    "tell me a {bedtime|funny|happy|sweet|new} story", "can I hear a story?", "write a {short |little |}story for {me|my child|my son|my daughter|children|kids}",
    "let's have a story", "tell a story", "make up a story", "once upon a time",
]
ASK_ABOUT = [
    "{tell|write} me a {|short|little|nice} story about <x>",
    "{can|could} you {tell|write} {me |}a {|short|little} story about <x>?",
    "{please |}{write|tell|make up} a {|short|nice|little} story about <x>{ please|}",
    "I {want|would like} a {|short }story about <x>", "do you know a story about <x>?",
    "a story about <x>{, please| please|}", "{tell|give} me {another|a new} story about <x>",
    "story about <x>", "tell me {something|a tale} about <x>, a story{ please|}",
    "write a {|short |bedtime }story {about|with} <x>", "I want {to hear |}a story {about|with} <x>",
]


def intro(g):
    return g.pick(["", g.say("{of course!|sure!|with pleasure!|here is a story.|here is a story for you.|gladly!}") + " "])


def ask_story(g):
    return [(g.say(g.pick(ASK)), intro(g) + story(g))]


THEMES = [("friendship", "new friend"), ("being brave", "fear"), ("courage", "fear"), ("sharing", "sharing"),
          ("kindness", "sharing"), ("a treasure", "treasure"), ("a birthday", "birthday"), ("the moon", "moon"),
          ("a rainy day", "rainy day"), ("a race", "race"), ("a wish", "wishes"), ("telling the truth", "truth"),
          ("a seed", "seed"), ("a lost toy", "lost"), ("a lonely dragon", "monster"), ("a birthday party", "birthday"),
          ("two friends", "quarrel"), ("an old neighbour", "neighbour"), ("getting lost", "way home")]


def topic(g):
    """(words in the request, arguments of story)."""
    r = g.rng.random()
    who = character(g)
    kind, name = who["who"], who["N"]
    animal, person, place, thing = g.pick(ANIMALS), g.pick(PEOPLE), g.pick(PLACES), g.pick(THINGS)
    if r < 0.30:
        return g.raw("{a|a|a|the} {|little |small |brave |shy }" + animal), dict(who=animal)
    if r < 0.42:
        return g.raw("a {|little |young |brave |kind |poor }" + person), dict(who=person)
    if r < 0.54:
        return g.raw("a {|little |small }" + kind + " {named|called} " + name), dict(who=kind, name=name)
    if r < 0.60:
        name = g.pick(GIRLS + BOYS)
        return name, dict(name=name, who="girl" if name in GIRLS else "boy")
    if r < 0.68:
        return f"a {animal} and a {thing}", dict(who=animal, thing=thing)
    if r < 0.74:
        other = g.pick([a for a in ANIMALS if a != animal])
        return f"a {animal} and a {other}", dict(who=animal, friend=other)
    if r < 0.82:
        return f"a {animal} {AT[place]}", dict(who=animal, place=place)
    if r < 0.88:
        return f"{name} and a {thing}", dict(who=kind, name=name, thing=thing)
    word, plot = g.pick(THEMES)
    return word, dict(plot=plot)


def ask_story_about(g):
    words, args = topic(g)
    return [(g.say(g.pick(ASK_ABOUT), x=words), intro(g) + story(g, **args))]


AGAIN = ["{tell me |}another {one|story}{, please| please|}", "one more{, please| please|}", "again", "more",
         "{can|could} you tell {me |}another one?", "that was {nice|lovely|great|good}, {tell me |}another one",
         "I like{d|} it. {tell me |}one more", "another"]


def two_stories(g):
    first = g.pick([ask_story, ask_story_about])(g)
    second = g.pick(["", g.say("{gladly!|of course!|sure!|here is another one.|all right, one more.}") + " "]) + story(g)
    return first + [(g.say(g.pick(AGAIN)), second)]


def story_question(g):
    """A story and a question about it."""
    who = character(g)
    args = dict(w=who["who"], n=who["N"])
    question, answer = g.pick([
        ("{what was the name of the <w>|what was the <w> called|what is the name of the <w>}?",
         "{the <w> was called <n>|the name of the <w> was <n>|its name was <n>}."),
        ("who {is|was} the story about?", "{the story is|it is} about <n>, a <w>."),
        ("{did you make that up|did you write that yourself|where is that story from|is it a true story}?",
         "{I made it up for you|I made it up just now|it is not a true story, I made it up}."),
    ])
    return [(g.say(ASK), story(g, who["who"], who["N"])), (g.say(question, **args), g.say(answer, **args))]


# ---- poems -----------------------------------------------------------------------------------

POEM_TOPICS = {
    "rain": [("the rain comes down {upon the street|on roof and street}", "{and dances round|and washes over} my {two small|tired} feet"),
             ("{drip and drop, it sings to me|a thousand drops fall from the sky}", "{and waters every flower and tree|and little streams go running by}"),
             ("{and when it stops, the air is new|at last the clouds all drift away}", "{and all the sky is clear and blue|and leave behind a brighter day}")],
    "the moon": [("the moon {looks down with silver light|is round and big and bright}", "{and keeps us company at night|and watches over us at night}"),
                 ("{it climbs above the quiet town|it shines upon the sleeping sea}", "{and lays its silver softly down|and sends a little light to me}"),
                 ("{so close your eyes and dream with me|good night, good night, the day is done}", "{of all the things that you can be|the moon will wait here for the sun}")],
    "the sea": [("the sea is {deep, the sea is wide|blue and deep and wide}", "{with fish and secrets deep inside|it comes and goes with every tide}"),
                ("{the waves roll in, the waves roll out|the gulls fly high, the ships sail by}", "{and children run and laugh and shout|beneath a wide and open sky}"),
                ("{I hold a shell against my ear|and when I leave, I always know}", "{and all the sea is singing here|the waves will come, the waves will go}")],
    "spring": [("the snow has gone, the {grass is green|birds are back}", "{the brightest green I've ever seen|they hop along the garden track}"),
               ("{a flower opens, then one more|the bees are humming in the sun}", "{and life is knocking at the door|the time of cold and dark is done}"),
               ("{oh come outside and sing with me|so take your coat and hang it there}", "{for spring is in the apple tree|the smell of spring is in the air}")],
    "winter": [("the {snow falls soft, the snow falls white|fields are white, the air is cold}", "{and covers all the town at night|the frost has turned the leaves to gold}"),
               ("{we sit beside the fire's glow|we drink our cocoa, warm and sweet}", "{and watch the slowly falling snow|with woolly socks upon our feet}"),
               ("{and winter whispers: take it slow|the year is tired, let it sleep}", "{beneath the snow the flowers grow|the night is long, the snow is deep}")],
    "a cat": [("my cat is {soft, my cat is small|grey and soft and round}", "{she sleeps upon the garden wall|she walks about without a sound}"),
              ("{she hunts a leaf, she hunts a fly|she chases shadows on the floor}", "{and watches all the birds go by|and then she wants a little more}"),
              ("{at night she curls up next to me|and when I'm sad, she seems to know}", "{as warm and happy as can be|she stays with me and will not go}")],
    "a dog": [("my dog is {always glad to see|waiting at the door for}" + " me", "{and runs around me, one, two, three|as happy as a dog can be}"),
              ("{he brings a stick, he brings a ball|we walk in sun, we walk in rain}", "{he does not mind the cold at all|and then we walk back home again}"),
              ("{no matter what the day may send|he cannot read, he cannot write}", "{I have a dog, I have a friend|but he is with me day and night}")],
    "friendship": [("a friend is {someone kind and true|like a warm, safe light}", "{who laughs and sometimes cries with you|that shines for you on every night}"),
                   ("{when days are dark, when days are long|you share the bread, you share the way}", "{a friend is there and keeps you strong|and make a feast of every day}"),
                   ("{so hold my hand and walk with me|and though the road goes up and down}", "{together is the place to be|a friend is better than a crown}")],
    "the night": [("the {night is soft, the night is deep|stars come out, the day is done}", "{and all the birds are fast asleep|the hills have swallowed up the sun}"),
                  ("{the wind is singing, low and slow|a quiet owl flies over the trees}", "{a song that only dreamers know|and calls its question to the breeze}"),
                  ("{so close your eyes, the stars will stay|and every worry, big or small}", "{until they turn to light of day|is not so heavy after all}")],
    "summer": [("the {sun is high, the days are long|fields are gold, the sky is blue}", "{the garden hums a lazy song|the swallows fly, the bees hum too}"),
               ("{we swim and run and climb a tree|we eat ice cream beneath the shade}", "{as wild and happy as can be|and drink a glass of lemonade}"),
               ("{oh summer, stay a little more|and when the evening comes at last}", "{there's sand and sunlight on the floor|we wonder why it went so fast}")],
    "autumn": [("the leaves {turn yellow, red and brown|are red and gold and brown}", "{and one by one come floating down|and dance their way across the town}"),
               ("{the wind is playing in the lane|we gather apples, sweet and red}", "{and taps against the windowpane|and put the garden tools to bed}"),
               ("{so light a candle, pour the tea|the geese fly south, the evenings fall}", "{and spend the evening here with me|and autumn paints them, one and all}")],
    "a star": [("a little star {shines far away|looks down at me}", "{it hides itself throughout the day|above the house, above the tree}"),
               ("{but when the sky is dark and wide|I make a wish, I make it small}", "{it has no need to run and hide|the star can hear it, after all}"),
               ("{good night, small star, shine on, shine bright|and though it is so far from me}", "{and show the lost ones home tonight|it is the first thing that I see}")],
}
POEM_WORDS = {"flowers": "spring", "snow": "winter", "love": "friendship", "a friend": "friendship",
              "the ocean": "the sea", "water": "rain", "stars": "a star", "cats": "a cat", "dogs": "a dog",
              "sleep": "the night", "the sun": "summer", "leaves": "autumn", "clouds": "rain", "nature": "spring"}


def poem(g, about):
    lines = []
    for pair in POEM_TOPICS[about]:
        for line in pair:
            text = g.raw(line)
            lines.append(text[0].upper() + text[1:])
    ends = [",", ".", ",", ".", ",", "."]
    n = 4 if g.chance(0.4) else 6
    if n == 4:
        lines = lines[:2] + lines[-2:] if g.chance(0.5) else lines[:4]
    return "\n".join(l + ends[i] for i, l in enumerate(lines))


def ask_poem(g):
    if g.chance(0.3):
        q = g.say(["{write|tell|give} me a {|short|little} poem", "{can|could} you write a {|short|little} poem?", "a poem, please",
                   "do you know a poem?", "{write|make up} a poem", "say a poem", "I would like a poem", "a {short|little} {poem|rhyme} please"])
        return [(q, poem(g, g.pick(list(POEM_TOPICS))))]
    word = g.pick(list(POEM_TOPICS) + list(POEM_WORDS))
    q = g.say(["{write|tell|give} me a {|short|little} poem about <x>", "{can|could} you write {me |}a {|short|little} poem about <x>?",
               "a poem about <x>{, please| please|}", "do you know a poem about <x>?", "{write|make up} a {|short|nice} poem about <x>",
               "I {want|would like} a poem about <x>", "please write a {|little} {poem|rhyme} about <x>"], x=word)
    return [(q, poem(g, POEM_WORDS.get(word, word)))]


INTENTS = [
    (3.5, "story", ask_story),
    (6.5, "story about", ask_story_about),
    (0.8, "two stories", two_stories),
    (1.0, "story question", story_question),
    (2.5, "tiny story", ask_tiny),
    (3.0, "poem", ask_poem),
]
