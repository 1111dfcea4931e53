"""English names of languages by their codes."""

from __future__ import annotations

__all__ = ["language_name"]

TABLE = """
aa Afar, ab Abkhazian, ace Acehnese, ae Avestan, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic,
ary Moroccan Arabic, arz Egyptian Arabic, as Assamese, av Avaric, ay Aymara, az Azerbaijani, ba Bashkir,
bcl Central Bikol, be Belarusian, bg Bulgarian, bh Bhojpuri, bi Bislama, bm Bambara, bn Bengali, bo Tibetan,
br Breton, bs Bosnian, ca Catalan, ce Chechen, ch Chamorro, co Corsican, cr Cree, crh Crimean Tatar, cs Czech,
cu Church Slavic, cv Chuvash, cy Welsh, da Danish, de German, dv Divehi, dz Dzongkha, ee Ewe, el Greek,
en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, ff Fula, fi Finnish, fj Fijian,
fo Faroese, fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician, gn Guarani,
gom Goan Konkani, grc Ancient Greek, gu Gujarati, gv Manx, ha Hausa, he Hebrew, hi Hindi, ho Hiri Motu,
hr Croatian, ht Haitian Creole, hu Hungarian, hy Armenian, hz Herero, ia Interlingua, id Indonesian,
ie Interlingue, ig Igbo, ii Sichuan Yi, ik Inupiaq, io Ido, is Icelandic, it Italian, iu Inuktitut, ja Japanese,
jv Javanese, ka Georgian, kab Kabyle, kg Kongo, ki Kikuyu, kj Kuanyama, kk Kazakh, kl Kalaallisut, km Khmer,
kn Kannada, ko Korean, kr Kanuri, ks Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin,
lb Luxembourgish, lg Ganda, li Limburgish, lij Ligurian, ln Lingala, lo Lao, lt Lithuanian, ltg Latgalian,
lu Luba-Katanga, lv Latvian, mg Malagasy, mh Marshallese, mi Māori, mk Macedonian, ml Malayalam, mn Mongolian,
mr Marathi, ms Malay, mt Maltese, my Burmese, na Nauru, nb Norwegian Bokmål, nd North Ndebele, ne Nepali,
ng Ndonga, nl Dutch, nn Norwegian Nynorsk, no Norwegian, nr South Ndebele, nso Northern Sotho, nv Navajo,
ny Nyanja, oc Occitan, oj Ojibwa, om Oromo, or Odia, os Ossetic, pa Punjabi, pcm Nigerian Pidgin, pi Pali,
pl Polish, ps Pashto, pt Portuguese, qu Quechua, rm Romansh, rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda,
sa Sanskrit, sc Sardinian, sd Sindhi, sdh Southern Kurdish, se Northern Sami, sg Sango, si Sinhala, sk Slovak,
sl Slovenian, sm Samoan, sn Shona, so Somali, sq Albanian, sr Serbian, ss Swati, st Southern Sotho,
su Sundanese, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen,
tl Tagalog, tn Tswana, to Tongan, tr Turkish, ts Tsonga, tt Tatar, tw Twi, ty Tahitian, ug Uyghur,
uk Ukrainian, ur Urdu, uz Uzbek, ve Venda, vec Venetian, vi Vietnamese, vo Volapük, wa Walloon, wo Wolof,
wuu Wu Chinese, xh Xhosa, yi Yiddish, yo Yoruba, yue Cantonese, za Zhuang, zh Chinese, zu Zulu
"""
"""The codes of ISO 639-1, and others that py3langid detects, with names of CLDR, or LibreTranslate's (bn, tl)"""
NAMES = dict(entry.split(" ", 1) for entry in " ".join(TABLE.split()).split(", "))


def language_name(code: str) -> str:
    """The name of a language, with script or region, as in Portuguese (BR) for pt_BR; an unknown code itself."""
    language, _, variant = code.replace("_", "-").partition("-")
    if language.lower() not in NAMES:
        return code
    return f"{NAMES[language.lower()]} ({variant})" if variant else NAMES[language.lower()]
