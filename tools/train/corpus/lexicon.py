"""Words that templates may use in a slot without being given a value."""

GIRLS = ("Mia Lily Anna Zoe Emma Nora Ruby Ella Clara Lucy Sara Ivy Rosa Maya Hana Nina Alma Tilda "
         "Greta Olive Wendy Kira Lena Poppy Flora Mina Vera Edith June Pia").split()
BOYS = ("Tom Ben Max Leo Sam Finn Oscar Theo Noah Hugo Eli Milo Jack Otto Felix Emil Ravi Kofi Tim "
        "Jonas Arlo Ned Pablo Amir Toby Luca Rufus Gus Ivan Paul").split()
PETS = ("Pip Bella Coco Biscuit Moss Pepper Dot Hazel Nibbles Rusty Button Clover Sunny Bramble Tuft "
        "Pebble Fern Whiskers Acorn Marble").split()

LEXICON = {
    "girl": GIRLS,
    "boy": BOYS,
    "pet": PETS,
    "anyname": GIRLS + BOYS,
    "nice": ["nice", "lovely", "good", "wonderful", "great"],
    "hello": ["Hello", "Hi", "Hey", "Hello there", "Hi there", "Hey there"],
    "colour": ["red", "blue", "green", "yellow", "orange", "purple", "white", "brown", "silver", "golden"],
    "small": ["small", "little", "tiny"],
    "weather": ["sunny", "windy", "warm", "cold", "rainy", "foggy", "bright", "snowy"],
    # openings of a question, to stand before "what is ..."
    "tellme": ["tell me", "can you tell me", "please tell me", "could you tell me", "do you know",
               "I want to know", "I would like to know", "I wonder"],
}
