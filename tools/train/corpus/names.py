"""Names that people give themselves: known ones, and invented ones, so that the model learns to repeat instead of to choose."""
from .lexicon import BOYS, GIRLS

KNOWN = GIRLS + BOYS + (
    "Adam Adele Agnes Ahmed Aida Aisha Albert Aldo Alec Alex Alfred Ali Amanda Amber Amy Ana Andrea Andrew Angela Anita Anne Anton Arthur Arun "
    "Asha Astrid Audrey Axel Barbara Basil Beatrice Bella Bernard Beth Betty Bill Bjorn Boris Brenda Brian Bridget Bruno Bryan Caleb Cara Carl "
    "Carmen Carol Caroline Cathy Cecil Chen Chloe Chris Claire Claude Colin Connor Craig Cyril Daisy Dan Daniel Daphne Darius David Dawn Dean Deborah "
    "Dennis Derek Diana Diego Dina Dmitri Dominic Donna Dora Doris Doug Duncan Dylan Eddie Edgar Edward Eileen Elaine Elena Elif Elijah Elise "
    "Elizabeth Ellen Elsa Emily Eric Erik Erin Ernest Esther Ethan Eva Evan Eve Farah Fatima Fiona Florian Frances Frank Fred Freya Gabriel Gary "
    "George Gerald Gina Giulia Glen Gloria Gordon Grace Graham Grant Greg Guy Gwen Hamid Hannah Hans Harold Harry Hassan Heather Hector Heidi "
    "Helen Henry Hilda Hiro Holly Howard Ian Ibrahim Igor Ines Ingrid Irene Iris Isaac Isabel Jacob Jade Jake James Jamie Jane Janet Jared Jason "
    "Javier Jean Jeff Jenny Jeremy Jessica Jill Jim Joan Joanna Joe Joel John Jordan Jorge Joseph Josh Joy Juan Judy Julia Julian Justin Kai "
    "Karen Karim Karl Kate Keith Kelly Ken Kevin Kim Klaus Kurt Kyle Lara Larry Lars Laura Lauren Lee Leila Leon Lewis Lisa Liu Logan Lola Louis "
    "Louise Lucas Luis Luke Lydia Lynn Maggie Marco Marcus Margaret Maria Mario Mark Marta Martha Martin Mary Mateo Matt Maurice Megan Mehmet "
    "Mei Melissa Michael Mike Milan Miriam Mohammed Molly Monica Morgan Muhammad Nadia Nancy Naomi Natalie Nathan Neil Nick Nicole Nils Nour Olga "
    "Oliver Olivia Omar Oskar Owen Pamela Pat Patrick Paula Pavel Pedro Peggy Penny Peter Petra Phil Philip Pierre Rachel Rafael Raj Ralph Raymond "
    "Rebecca Renata Richard Rick Rita Rob Robert Robin Roger Roland Ron Rosie Ross Roy Russell Ruth Ryan Sally Sami Samuel Sandra Sanjay Saul "
    "Scott Sean Sergei Seth Shane Sharon Sheila Simon Sofia Sonia Sophie Stan Stella Stephen Steve Stuart Sue Susan Svetlana Sven Tania Tara Ted Teresa "
    "Terry Thomas Tina Todd Tony Tracy Trevor Uma Ursula Valerie Vanessa Victor Vincent Viola Walter Wanda Wayne Will William Xavier Yana Yara "
    "Yasmin Yuki Yusuf Zack Zainab Zara").split()

# The model never meets these: they tell whether it repeats a name or knows it.
HELD_OUT = "Bob Alice Carlos Priya Maximilian Fatou Giovanni Keiko Sarah Ludwig Nikita Deepak Ingmar Rosalind Tomasz Quentin Aaron Bianca Winston Yvonne".split()

STARTS = "B Br C Ch D Dr F Fl G Gr H J K Kr L M N P Ph Pr Qu R S Sh St T Th Tr V W Y Z".split() + [""] * 4
VOWELS = "a a e e i i o o u ai ea ee ie ou y".split()
MIDDLES = "b d f g k l ll m n nn p r rr s ss t tt v z nd nt rd rl st sh th ck mb lv".split()
ENDS = "n n l r s t d k m x a o us in el ert ard on son th sh".split() + [""] * 8


def invented(g):
    """A name of one to three syllables."""
    name = g.pick(STARTS) + g.pick(VOWELS)
    for _ in range(g.rng.choice([0, 1, 1, 2])):
        name += g.pick(MIDDLES) + g.pick(VOWELS)
    name += g.pick(ENDS)
    return name.capitalize() if len(name) > 2 else invented(g)


def any_name(g):
    """A known name as often as an invented one; none that is held out."""
    name = g.pick(KNOWN) if g.chance(0.5) else invented(g)
    return any_name(g) if name in HELD_OUT else name
