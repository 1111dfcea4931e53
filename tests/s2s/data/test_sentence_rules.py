"""Sentences are counted and stay whole, whatever stands between them, in several scripts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from s2s.data import sentence_rules
from s2s.data.sentence_rules import RuleSegmenter
from s2s.registry import Choice


def sentences(text: str, language: str = "") -> list[str]:
    return [text[begin:end] for begin, end in RuleSegmenter(Choice(), language).sentences(text)]


SCRIPTS = {
    "Latin": ["The dog hid.", "Did the aunt want to sing?", "It cost 3.50 euros!", "They left…"],
    "Cyrillic": ["Собака спряталась.", "Тётя хотела петь?", "Это стоит 3.50 рубля!", "Они ушли…"],
    "Greek": ["Ο σκύλος κρύφτηκε.", "Ήθελε να τραγουδήσει\u037e", "Κοστίζει 3.50 ευρώ!", "Έφυγαν…"],
    "Han": ["狗躲起来了。", "姑姑想唱歌吗？", "要3.50元！", "他们走了。"],
    "Kana": ["いぬがかくれた。", "うたいたかったか？", "3.50ユーロです！", "かれらはさった。"],
    "Devanagari": ["कुत्ता छिप गया।", "क्या वह गाना चाहती थी?", "यह 3.50 यूरो है!", "वे चले गए।"],
    "Arabic": ["اختبأ الكلب.", "هل أرادت أن تغني؟", "سعره 3.50 يورو!", "غادروا."],
    "Armenian": ["Շունը թաքնվեց։", "Նա ուզում էր երգել։", "Արժե 3.50 եվրո։", "Նրանք գնացին։"],
    "Ethiopic": ["ውሻው ተደበቀ።", "መዘመር ፈለገች፧", "3.50 ዩሮ ነው፡፡", "ሄዱ።"],
    "Georgian": ["ძაღლი დაიმალა.", "სურდა სიმღერა?", "ღირს 3.50 ევრო!", "წავიდნენ…"],
    "Hebrew": ["הכלב התחבא.", "היא רצתה לשיר?", "זה עולה 3.50 אירו!", "הם הלכו…"],
    "Urdu": ["کتا چھپ گیا۔", "کیا وہ گانا چاہتی تھی؟", "یہ 3.50 یورو ہے!", "وہ چلے گئے۔"],
    "Bengali": ["কুকুর লুকিয়েছিল।", "সে কি গাইতে চেয়েছিল?", "এর দাম 3.50 ইউরো!", "তারা গেল।"],
    "Tamil": ["நாய் மறைந்தது.", "அவள் பாட விரும்பினாளா?", "இது 3.50 யூரோ!", "சென்றனர்…"],
    "Hangul": ["개가 숨었다.", "이모가 노래하고 싶었나요?", "값은 3.50 유로다!", "그들은 떠났다…"],
    "Tibetan": ["ཁྱི་གབ་སོང་།", "ཞི་མི་ཉལ་འདུག།", "ཁོ་ཚོ་ཕྱིན་སོང་༎"],
    "Khmer": ["ឆ្កែបានលាក់។", "តើនាងចង់ច្រៀងទេ?", "ថ្លៃ 3.50 អឺរ៉ូ!", "គេទៅ៕"],
    "Burmese": ["ခွေးပုန်းသည်။", "သူမသီချင်းဆိုချင်သလား?", "3.50 ယူရို။", "သူတို့သွားသည်။"],
    "Thai": ["สุนัขซ่อนตัว!", "เธออยากร้องเพลงไหม?", "ราคา 3.50 ยูโร!", "พวกเขาไป…"],
    "Lao": ["ໝາເຊື່ອງ!", "ແມວນອນບໍ?", "ລາຄາ 3.50 ເອີໂຣ!"],
    "Armenian colon": ["Շունը թաքնվեց:", "Արժե 3.50 եվրո:", "Նա է:", "Նրանք գնացին:"],
    "Hindi bar": ["कुत्ता छिप गया |", "यह 3.50 यूरो है|", "वे चले गए|"],
    "Han, half width": ["狗躲起来了!", "姑姑想唱歌吗?", "要3.50元｡", "他们走了!"],
    "Santali": ["ᱥᱮᱛᱟ ᱩᱠᱩᱭᱮᱱᱟ᱾", "ᱯᱩᱥᱤ ᱡᱟᱹᱯᱤᱫᱼᱟᱭ᱿"],
    "Meetei": ["ꯍꯨꯏ ꯂꯣꯠꯄꯥ꯫", "ꯍꯧꯗꯣꯡ ꯇꯨꯝꯃꯤ꯫"],
    "Javanese": ["ꦲꦱꦸ꧉", "ꦏꦸꦕꦶꦁ꧉"],
    "Mongolian": ["ᠨᠣᠬᠠᠢ᠃", "ᠮᠤᠤᠷ᠉"],
    "Cherokee": ["ᎩᏟ ᎤᏗᏍᎦᎳᎡ.", "ᏪᏌ ᎦᎵᎭ?", "ᎢᎾ!"],
    "Thaana": ["ކުއްތާ ފިލިއެވެ.", "ބުޅާ ނިދިއެވެ؟"],
}
SYMBOLS = [
    *(
        "😀",
        "👩🏽‍🚒",
        "❤️",
        "🇩🇪",
        "—",
        "–",
        "-",
        "--",
        "•",
        "‣",
        "·",
        "#",
        "*",
        "* * *",
        "→",
        "★",
        "|",
        "||",
        "/",
        "=>",
        "~",
    ),
    *(
        "&",
        "@",
        "+",
        "...",
        "§",
        "¶",
        "©",
        "✓",
        "☞",
        "■",
        "●",
        "🎉🎉",
        "※",
        "♪",
        "\u200b",
        "\ufeff",
        "<>",
        "%",
        "^",
        ">",
    ),
]
SEPARATORS = [" ", "  ", "\t", "\u00a0", "\u3000", "\u2003", *(f" {symbol} " for symbol in SYMBOLS)]


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("script", SCRIPTS)
def test_as_many_sentences_come_out_as_went_in(script: str, separator: str) -> None:
    language = "el" if script == "Greek" else ""
    assert sentences(separator.join(SCRIPTS[script]), language) == SCRIPTS[script]


@pytest.mark.parametrize("script", sorted(SCRIPTS.keys() - {"Hindi bar"}))
def test_no_script_needs_a_blank_between_sentences(script: str) -> None:
    """But before a number, which may be a part of the name before it."""
    texts = [text for text in SCRIPTS[script] if text[0] != "3" or script == "Kana"]
    assert sentences("".join(texts)) == texts


@pytest.mark.parametrize(
    "parts",
    [
        ["The dog hid.", "The cat sleeps."],
        ["The dog hid.", "#cats sleep."],
        ["The dog hid.", "@anna sleeps."],
        ["The dog hid.", "**The** cat sleeps."],
        ["**The dog hid.**", "The cat sleeps."],
        ['She said "yes."', "He left."],
        ["He left.", '"She stayed."', "He left."],
        ["He left.", "“She stayed.”", "He left."],
        ["He left.", "(She stayed.)"],
        ["Is it true?", "Yes!", "No."],
        ["He paid 1,000.", "That is a lot."],
        ["Il est là !", "Elle part."],
        ["¿Dónde está?", "¡Aquí!"],
        ["本当?", "嘘でしょ!"],
        ["他说:“走吧!”", "她走了。"],
        ["すごい!", "とても良い。"],
        ["他走了.", "我留下了."],
        ["他走了.", "我留下了。"],
        ["<b>The dog hid.</b>", "The cat sleeps."],
        ["The dog hid.", "<b class=x>The cat</b> sleeps."],
        ["THE DOG HID.", "THE CAT SLEEPS."],
    ],
    ids="|".join,
)
def test_sentences_without_a_blank_between_them_are_two(parts: list[str]) -> None:
    assert sentences("".join(parts)) == parts


@pytest.mark.parametrize(
    "whole",
    ["See Node.js and ASP.NET.", "Use System.Out.Println now.", "Open File.TXT and main.Py.",
     "See www.Example.COM/Foo.", "Go to example.Com now.", "J.R.R. Tolkien, J.F.Kennedy", "Mr.Smith left.",
     "No.5 is alive.", "Call Foo.Bar(x) now.",
     "Get http://a.B/c?D=E!F from a@B.Com", "z.B.Das", "U.S.Army", "He works at Yahoo! Inc. in Rome.",
     "Yahoo! Finance is down.", "Where is it?he asked.", "See Fig.3 The dog.", "See p.5 The dog.", "Dr.陈来了。",
     "今日は3.5度です。", "第1.节", "Yahoo!ニュースを見た。", "すごい!と言った。",
     "「本当?」と聞いた。", "使用Node.js开发。",
     "พ.ศ. 2560", "២.៥ គឺ។", "ខ្មែរ ។ល។", "डॉ. राम आए।", "10:30", "The angle a; The dog.",
     "データベース.表.会社 EQ", "「...」を見た。", "1000...と 5000",
     "Call fmt.Println to print it.", "It is np.Array or pkg.Name, not html.Parser.", "«… Das ist gut.»",
     "... It hid.", "(!) Warning",
     "If…Then…Else", "Do...Until", "CONFIDENCE(α; 標準偏差)"],
)  # fmt: skip
def test_names_numbers_and_quotations_without_blanks_stay_whole(whole: str) -> None:
    assert sentences(whole) == [whole]


@pytest.mark.parametrize("note", ["1", "23", "¹", "[1]", "(4)"])
def test_the_number_of_a_note_belongs_to_no_sentence(note: str) -> None:
    assert sentences(f"The dog hid.{note} The cat sleeps.{note}") == ["The dog hid.", "The cat sleeps."]


@pytest.mark.parametrize("second", ["#cats sleep.", "@anna sleeps.", "iPhones ring.", ".NET is old."])
def test_tags_and_names_in_small_letters_begin_a_sentence(second: str) -> None:
    assert sentences(f"The dog hid. {second}") == ["The dog hid.", second]


@pytest.mark.parametrize("symbol", ["—", "–", "•", "😀", "☞", "★"])
def test_dashes_bullets_and_emoji_need_no_blanks(symbol: str) -> None:
    assert sentences(f"The dog hid.{symbol}The cat sleeps.") == ["The dog hid.", "The cat sleeps."]


@pytest.mark.parametrize(
    "second",
    ["“So?”", '"So?"', "„Ja.“", "« Non. »", "»Nein.«", "'So?'", "(It is.)", "[1] It is.", "3 dogs hid.",
     "$5 is enough.", "¿Dónde?", "¡Aquí!", "€5.", "「はい。」", "The end.", "#Tag.", "@Ann.", "-5 degrees."],
)  # fmt: skip
def test_quotes_brackets_digits_and_signs_begin_a_sentence(second: str) -> None:
    assert sentences(f"The dog hid. {second} He left.") == ["The dog hid.", *f"{second}| He left.".split("| ")]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Seven. Two! Three? Four… Five", ["Seven.", "Two!", "Three?", "Four…", "Five"]),
        ('He said "No!" Then (quietly.) He went. "So?" ', ['He said "No!"', "Then (quietly.)", "He went.", '"So?"']),
        ("“Go.” She left.", ["“Go.”", "She left."]),
        ("Il est là. » Elle part.", ["Il est là. »", "Elle part."]),
        ("Is it?! Yes.", ["Is it?!", "Yes."]),
        ("これは。「あれ！」です", ["これは。", "「あれ！」", "です"]),
        ("1. The dog hid. 2. The cat sleeps.", ["1. The dog hid.", "2. The cat sleeps."]),
        ("He is 5. The dog hid.", ["He is 5.", "The dog hid."]),
        ("«… Das ist gut.» Er ging.", ["«… Das ist gut.»", "Er ging."]),
        ("Měl krk.Potom odešel.", ["Měl krk.", "Potom odešel."]),
        ("So do I. You too.", ["So do I.", "You too."]),
        ("He lives in the U.S. He likes it.", ["He lives in the U.S.", "He likes it."]),
        ("They met at 5 p.m. The dog hid.", ["They met at 5 p.m.", "The dog hid."]),
        ("See www.example.com. It works.", ["See www.example.com.", "It works."]),
        ("😀 The dog hid. The cat. 😀", ["The dog hid.", "The cat."]),
        ("no end in sight", ["no end in sight"]),
        (" \u2003 ", []),
        ("...", ["..."]),
    ],
)
def test_sentences_end_where_a_reader_sees_it(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts


@pytest.mark.parametrize(
    ("whole", "language"),
    [
        ("Mr. Smith met U.S. President Grant and Dr. No.", "en"),
        ("J. R. R. Tolkien wrote it on Jan. 5 in St. Louis, No. 3.", "en"),
        ("Acme Inc. Germany sells e.g. Apples, i.e. Fruit, vs. Nuts.", "en"),
        ("It cost 3.50 euros at example.Com, see http://a.B/c?D=E!F or v1.2.", "en"),
        ("Älter war nur sie, z. B. Das ist so, d. h. Gut.", "de"),
        ("Am 3. Oktober kam Dr. Müller mit Hrn. Meier in die Str. Nr. 5.", "de"),
        ("Am 3. Oktober kam sie.", ""),
        ("Im II. Weltkrieg war das 3. Reich.", "de"),
        ("Это т. е. Дом на ул. Ленина, см. рис. 5, у г-н. Иванова.", "ru"),
        ("Sra. García y D. Juan viven en la av. 5 pág. 3.", "es"),
        ("wait... what is it? he said. no.", "en"),
        ("😀 The dog hid. 😀", "en"),
        ("— The dog hid.", "en"),
    ],
)
def test_abbreviations_numbers_and_host_names_stay_whole(whole: str, language: str) -> None:
    assert sentences(whole, language) == [whole]


def test_nothing_but_white_space_and_symbols_is_outside_of_sentences() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        text = "".join(draw.choices('aB.!? \u3002\u201d)\n\u00e9😀—"1', k=draw.randint(0, 40)))
        end = 0
        for span in RuleSegmenter(Choice(), "").sentences(text):
            outside = text[end : span.begin]
            assert not any(letter.isalnum() for letter in outside)
            assert text[span.begin : span.end].strip() == text[span.begin : span.end] != ""
            end = span.end
        assert not any(letter.isalnum() for letter in text[end:])


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("値は３．５です。次の値は４です。", 2),
        ("「はい。」と言った。", 1),
        ("「はい。」彼は言った。", 2),
        ("「いいえ。」って言った。", 1),
    ],
)
def test_decimal_points_and_quotations_of_scripts_without_blanks_stay_whole(text: str, n: int) -> None:
    assert len(RuleSegmenter(Choice(), "ja").sentences(text)) == n


@pytest.mark.parametrize(
    "text", ["a" * 2000 + " b. C" * 2000, "a.😀" * 6000, "? " * 9000 + "a", "x" * 9000 + ". B" * 3000], ids=len
)
def test_what_is_looked_at_grows_with_the_length_alone(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters read one by one, at most a bounded number for each of the line."""
    n_read = 0

    def counted(function: Any) -> Any:
        def call(line: Any, position: int) -> int:
            nonlocal n_read
            result: int = function(line, position)
            n_read += abs(result - position) + 1
            return result

        return call

    monkeypatch.setattr(sentence_rules, "gap_end", counted(sentence_rules.gap_end))
    monkeypatch.setattr(sentence_rules._SentenceEnd, "word_start", counted(sentence_rules._SentenceEnd.word_start))
    RuleSegmenter(Choice(), "de").sentences(text)
    assert n_read <= 40 * len(text)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A dog hid.[1] The cat sleeps.[2]", ["A dog hid.", "The cat sleeps."]),
        ("A dog hid.[1][a] The cat sleeps.¹² No.", ["A dog hid.", "The cat sleeps.", "No."]),
        ("He said “no.”(4) Then he left.", ["He said “no.”", "Then he left."]),
        ("Собака спряталась.[3] Кошка спит.", ["Собака спряталась.", "Кошка спит."]),
        ("狗躲起来了。[1]猫在睡觉。", ["狗躲起来了。", "猫在睡觉。"]),
        ("See Dr.[1] Smith.", ["See Dr.[1] Smith."]),
        ("See et al.(2010) The cat.", ["See et al.(2010) The cat."]),
        ("It is 3.5[1] m.", ["It is 3.5[1] m."]),
        ("See Miller et al. (2010) there.", ["See Miller et al. (2010) there."]),
        ("Es kostet 5 Mio. Euro.", ["Es kostet 5 Mio. Euro."]),
        ("Rep. Smith met Dr. med. Li.", ["Rep. Smith met Dr. med. Li."]),
    ],
)
def test_references_to_notes_follow_a_sentence_and_abbreviations_stay_whole(text: str, sentences: list[str]) -> None:
    assert [text[begin:end] for begin, end in RuleSegmenter(Choice(), "en").sentences(text)] == sentences
