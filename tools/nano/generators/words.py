"""Names and things that several generators draw from."""

NAMES = """Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Karla Leo Mia Nora Oskar Paula Quentin Rosa Simon Tara
Ulla Victor Wanda Yusuf Zoe Amir Bella Carlos Dina Elif Farid Gina Hana Ivan Julia Kofi Lena Marco Nina Omar Petra Rafael
Sofia Tom Uma Vera Will Xenia Yara Zeno""".split()
MEN = set("Ben David Felix Hugo Jonas Leo Oskar Quentin Simon Victor Yusuf Amir Carlos Farid Ivan Kofi Marco Omar Rafael Tom Will Zeno".split())
CITIES = """Paris Berlin Madrid Rome Vienna Oslo Lisbon Athens Dublin Prague Warsaw Helsinki Cairo Lima Quito Tokyo Seoul
Delhi Nairobi Lagos Toronto Boston Denver Sydney Zurich Geneva Lyon Porto Malmo Bergen""".split()
COLOURS = "red blue green yellow white black brown grey orange purple silver golden".split()
FRUITS = "apples pears plums oranges lemons peaches cherries melons grapes figs bananas apricots".split()
THINGS = """apples pears plums oranges lemons eggs books pens cups plates stamps coins shells marbles buttons cards candles
stickers flowers stones beads nails tickets keys cookies muffins pencils balloons ribbons toys""".split()
ANIMALS = "fox hare owl cat dog goat bear mouse crow duck horse hedgehog badger otter frog heron".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
