"""A survey in three languages, of a question of every kind."""

TRILINGUAL = """
title = "Your visit"
asked = "patients"
window = "week"
first = 2023-11-13
min_batch_size = 1
max_reports = 1000
[budget]
epsilon = "100000000"
windows = 52
[about]
introduction = "We want to shorten the wait.\\nThe results are put up in the hall."
organiser = "Saint Mary's Hospital"
contact = "survey@hospital.example"
privacy_notice = "https://hospital.example/privacy"
thanks = "Ask for a cup of tea at the counter."
leader = "the university"
helper = "the patients' council"
[[question]]
name = "region"
text = "In which region do you live?"
kind = "choice"
labels = ["north", "south"]
[[question]]
name = "income"
text = "What do you earn in a month?"
kind = "bins"
edges = [-100, 0, 5000, 15000.5]
unit = "pesos"
[[question]]
name = "hours"
text = "How many hours were you here?"
kind = "number"
low = 0
high = 1500
step = "1/2"
unit = "hours"
[[question]]
name = "wishes"
text = "What would you have wished for?"
kind = "multiple"
labels = ["parking", "food", "quiet"]
at_most = 2
[[question]]
name = "again"
text = "Would you come again?"
kind = "yes-no"
[[question]]
name = "mark"
text = "How was it?"
kind = "scale"
high = 3
labels = ["good", "fair", "bad"]
[[question]]
name = "stars"
text = "How many stars?"
kind = "scale"
high = 5
[[question]]
name = "spent"
text = "What did you spend?"
kind = "vector"
[[question.column]]
name = "bus"
high = 50
unit = "euros"
[[question.column]]
name = "train"
high = 50
unit = "euros"
[[question]]
name = "where"
text = "Where do you live?"
kind = "tree"
design = "leaves"
regions = [
    { label = "North", below = [{ label = "Hill" }, { label = "Lake" }] },
    { label = "South", below = [{ label = "Cliff" }, { label = "Sea" }] },
]
[[question]]
name = "hurts"
text = "What hurt?"
kind = "text"
epsilon = "64"
buckets = 32
tasks = 8

[translations.ar]
title = "زيارتك"
[translations.ar.about]
introduction = "نريد تقصير مدة الانتظار."
organiser = "مستشفى القديسة مريم"
thanks = "يمكنك طلب كوب من الشاي."
leader = "الجامعة"
helper = "مجلس المرضى"
[translations.ar.question]
region = { text = "في أي منطقة تسكن؟", labels = ["الشمال", "الجنوب"] }
income = { text = "كم تكسب في الشهر؟", unit = "بيزو" }
hours = { text = "كم ساعة بقيت هنا؟", unit = "ساعات" }
wishes = { text = "ما الذي كنت تتمناه؟", labels = ["موقف سيارات", "طعام", "هدوء"] }
again = { text = "هل ستأتي مرة أخرى؟" }
mark = { text = "كيف كانت؟", labels = ["جيدة", "مقبولة", "سيئة"] }
stars = { text = "كم نجمة؟" }
hurts = { text = "ما الذي كان يؤلمك؟" }
[translations.ar.question.spent]
text = "كم أنفقت؟"
column = [{ name = "الحافلة", unit = "يورو" }, { name = "القطار", unit = "يورو" }]
[translations.ar.question.where]
text = "أين تسكن؟"
regions = [
    { label = "الشمال", below = [{ label = "التل" }, { label = "البحيرة" }] },
    { label = "الجنوب", below = [{ label = "الجرف" }, { label = "البحر" }] },
]

[translations.fr]
title = "Votre visite"
[translations.fr.about]
introduction = "Nous voulons réduire l'attente."
privacy_notice = "https://hospital.example/fr/donnees"
thanks = "Demandez un thé au comptoir."
[translations.fr.question]
region = { text = "Dans quelle région habitez-vous ?", labels = ["nord", "sud"] }
income = { text = "Combien gagnez-vous par mois ?", unit = "pesos" }
hours = { text = "Combien d'heures êtes-vous resté ici ?", unit = "heures" }
wishes = { text = "Qu'auriez-vous souhaité ?", labels = ["parking", "repas", "calme"] }
again = { text = "Reviendriez-vous ?" }
mark = { text = "Comment était-ce ?", labels = ["bien", "moyen", "mal"] }
stars = { text = "Combien d'étoiles ?" }
hurts = { text = "Qu'est-ce qui vous faisait mal ?" }
[translations.fr.question.spent]
text = "Combien avez-vous dépensé ?"
column = [{ name = "bus", unit = "euros" }, { name = "train", unit = "euros" }]
[translations.fr.question.where]
text = "Où habitez-vous ?"
regions = [
    { label = "Nord", below = [{ label = "Colline" }, { label = "Lac" }] },
    { label = "Sud", below = [{ label = "Falaise" }, { label = "Mer" }] },
]
"""
"""So much epsilon that the noise is 0."""
