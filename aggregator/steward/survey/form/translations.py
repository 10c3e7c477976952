"""Every string of a survey's page, in English; another language is a file with other values.

Labels and questions are the survey's own. Names in braces stand for numbers and names that the page
fills in; a translation has the same ones.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from aggregator.errors import ParameterError
from aggregator.untrusted_text import meant

WORDS: Final[Mapping[str, str]] = {
    "lang": "en",
    "dir": "ltr",
    "question": "Question {number} of {count}",
    "choose_one": "Choose one.",
    "choose_some": "Choose all that apply.",
    "choose_at_most": "Choose at most {most}.",
    "none": "None of these",
    "number": "A number from {low} to {high}.",
    "number_in_steps": "A number from {low} to {high}, in steps of {step}.",
    "numbers": "A number for each of these.",
    "write": "In your own words, {most} characters at most. What others write in the same words is "
    "counted together with it; capital letters make no difference.",
    "yes": "Yes",
    "no": "No",
    "skip": "I'd rather not say",
    "send": "Send my answers",
    "faults": "Please look at these again:",
    "fault_one": "Choose an answer, or “I'd rather not say”.",
    "fault_most": "Choose at most {most}.",
    "fault_number": "Write a number from {low} to {high}, without a mark for thousands, or choose "
    "“I'd rather not say”.",
    "fault_numbers": "Write a number in its range for each, without a mark for thousands, or "
    "choose “I'd rather not say”.",
    "fault_text": "Write an answer, or choose “I'd rather not say”.",
    "not_here": "Questions that you would answer in your own words are not asked here: this "
    "browser is too old for them, or keeps nothing.",
    "cannot": "This browser cannot take part: it is too old, or keeps nothing. Please use another "
    "one. Nothing was sent.",
    "soon": "One moment: this page is still looking for a place to keep your answers until they "
    "are sent.",
    "not_kept": "This browser keeps nothing. Please keep this page open until it says that your "
    "answers are counted.",
    "thanks": "Thank you",
    "storing": "Your answers are still being stored on this device, and are sent then. Please keep "
    "this page open.",
    "sending": "Your answers are being sent.",
    "kept": "Your answers are kept on this device, and sent when this page is open and there is a "
    "connection. You may close this page, and open it again later.",
    "kept_by_page": "Your answers could not be sent yet, and this browser keeps nothing. Please "
    "keep this page open until it says that they are counted.",
    "clock": "Your answers wait, because the clock of this device is ahead.",
    "held": "Your answers are not sent yet, because nobody can tell what time it is: the two that "
    "add up answers do not both say it, or differ. Please keep this page open; it tries again.",
    "not_begun": "These questions can be answered from {start} on.",
    "over": "These questions can no longer be answered: they were asked until {end}.",
    "no_more": "No more answers are taken now.",
    "no_more_until": "No more answers are taken now. These questions can be answered again from "
    "{start} on.",
    "again": "You may answer again from {start} on.",
    "counted": "Your answers are counted.",
    "late": "Your answers came too late to be counted.",
    "refused": "Your answers were not taken.",
    "partly": "Not all of your answers were counted: some came too late, or were not taken.",
    "already": "This browser remembers that you have answered. It does not remember what.",
    "full": "This device has no room to keep your answers until they are sent.",
    "unsupported": "This browser is too old to split and seal your answers, or this page did not "
    "come by https. Please use another browser. Nothing was sent.",
    "no_script": "This page splits your answers before they leave your browser. That needs "
    "JavaScript, which is turned off here.",
    "what": "What happens to my answers?",
    "what_split": "This page splits each answer in your browser into two parts that say nothing by "
    "themselves, and sends one to {leader} and one to {helper}.",
    "what_trust": "These two could read your answers only together, if both broke their word.",
    "what_noise": "They add up everybody's answers, and each adds random noise before the sums are "
    "handed on.",
    "what_exact": "They add up everybody's answers, and the sums are handed on without noise.",
    "what_text": "What you write in your own words does not leave this browser. The browser makes "
    "a number of it, a hash, which is split and sent like a choice. The two together could read "
    "the number, and try which words have it.",
    "what_text_lists": "Whoever has the results and a list of words, now or later, can see about "
    "how many people wrote each of them, if many did. The fewer they are, the harder it is to tell "
    "them from the noise.",
    "what_text_letters": "From {start} to {end} this page asks for letters: if what you write is "
    "one of {count} answers that were frequent before, what is split says which one, and one "
    "letter of it, in place of the hash.",
    "what_text_group": "Before it looks at what you write, this browser draws for each such "
    "question one of several groups at random, and it stays in that group. {leader} and {helper} "
    "can see which one it is, each time you answer, but it says nothing of what you write. Only "
    "this browser sees to it: anyone who also answers in another one, or clears what this one "
    "keeps, may be in two groups, and then has less protection.",
    "what_cost": "If one of the two keeps its word, all that is handed on can change the odds of "
    "any guess about your answers by a factor of at most {factor}, each time you answer: that is "
    "an epsilon of {epsilon}.",
    "what_cost_delta": "If one of the two keeps its word, all that is handed on can change the "
    "odds of any guess about your answers by a factor of at most {factor}, each time you answer: "
    "that is an epsilon of {epsilon}, but for a chance of {delta}.",
    "what_cost_text": "Of this epsilon, {epsilon} is for what you write in your own words.",
    "what_page": "Whoever gave you this page could have changed it, so that it sends your answers "
    "elsewhere. Its fingerprint is published so that others can notice.",
    "what_seen": "{leader} and {helper} can see that this device has opened this page, since it "
    "asks both what time it is. {leader} can see that it took part, and when, but not which "
    "questions you answered: what is sent has the same size whatever you say, and always goes. "
    "Others on the network can see that it sent something, when, and how much.",
    "what_kept": "Until your answers are counted they are kept on this device, and then deleted. "
    "This browser remembers that you answered, not what; other browsers know nothing of it.",
}

_NAMES = re.compile(r"\{([^{}]*)\}")


def words_of(text: str) -> dict[str, str]:
    """Return the words of a translation, a JSON object of texts; what it leaves out stays English.

    Raises `ParameterError` for an unknown name, or other names in braces than the English ones.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"words: not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ParameterError("words: must be a JSON object of texts")
    for name, value in given.items():
        if name not in WORDS:
            raise ParameterError(f"words: there is no {name!r}{meant(name, WORDS)}")
        if not isinstance(value, str):
            raise ParameterError(f"words: {name} must be text")
        if sorted(_NAMES.findall(value)) != sorted(_NAMES.findall(WORDS[name])):
            names = ", ".join(_NAMES.findall(WORDS[name])) or "none"
            raise ParameterError(f"words: {name} must have these names in braces: {names}")
    if given.get("dir", "ltr") not in ("ltr", "rtl"):
        raise ParameterError("words: dir must be ltr or rtl")
    return {**WORDS, **given}


def filled(text: str, **values: str) -> str:
    """Return a text with its names in braces replaced."""
    return _NAMES.sub(lambda match: values[match[1]], text)
