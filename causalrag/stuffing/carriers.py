"""Sentences that say nothing, in several genres: what stuffed keywords are carried in.

Written for this project, in English and Chinese, about nothing in particular. ``{}`` is a slot: a
list of keywords is put there, or a pronoun where there is none. Nothing is counted here; how many
content tokens a sentence has depends on the extractor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LANGUAGES", "VOICES", "Genre", "Voice"]


@dataclass(frozen=True)
class Genre:
    """One kind of page.

    Attributes
    ----------
    titles, sentences : tuple of str
        With one or more slots each.
    """

    titles: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Voice:
    """What a language puts around keywords.

    Attributes
    ----------
    genres : mapping of str to Genre
        By name.
    questions : tuple of str
        Frames that make a question of what stands in their slot, without content of their own.
    rewordings : tuple of str
        Frames for the query's keywords in another order.
    headings : tuple of str
        Lines above a part of a text.
    asides : tuple of str
        Ways to set a word into the middle of a text.
    pronoun : str
        Stands in a slot that gets no keyword.
    comma, last, stop : str
        Between the words of a list, before its last word, after a sentence. A Chinese list has no
        conjunction: its characters could grow together with the words beside it.
    opening, closing : str
        Around a list in a slot: quotation marks keep Chinese words from growing together.
    space : str
        Between sentences.
    """

    genres: Mapping[str, Genre]
    questions: tuple[str, ...]
    rewordings: tuple[str, ...]
    headings: tuple[str, ...]
    asides: tuple[str, ...]
    pronoun: str
    comma: str
    last: str
    stop: str
    opening: str
    closing: str
    space: str


_ENGLISH = {
    "directory": Genre(
        titles=("Everything about {}", "{}: all of it on one page", "Find {} here"),
        sentences=(
            "Everything about {}: find {} here, {} explained.",
            "You have been looking for {}, and here is {}.",
            "This page is about {} and about {}.",
            "More on {} is on the pages about {}.",
            "Those who look for {} also look for {}.",
            "See also {}, or go back to {}.",
            "All pages on {} are sorted by {}.",
            "The list of {} is long, and {} is on it.",
            "Bookmark this page for {}.",
            "New entries on {} come in every week.",
        ),
    ),
    "shop": Genre(
        titles=("{} at its best", "Your first choice for {}", "{}, now in stock"),
        sentences=(
            "Looking for {}? Then {} is what you need.",
            "With us {} comes first, and {} right after it.",
            "Ask our friendly team about {}.",
            "Customers who chose {} were happy with {} as well.",
            "There has never been a better moment for {}.",
            "Whether it is {} or {}, you have come to the right place.",
            "Order today and hear more of {} tomorrow.",
            "No one else offers {} together with {}.",
            "Our promise covers {} and {} alike.",
            "Subscribe to our newsletter on {}.",
        ),
    ),
    "forum": Genre(
        titles=("Question about {}", "{} - anyone?", "Thread: {}"),
        sentences=(
            "Hi everyone, has anybody here got something on {}?",
            "I keep hearing about {}, then about {}, and then about {} again.",
            "My neighbour mentioned {} the other evening.",
            "Thanks for bringing up {}!",
            "I would also be interested in {} and in {}.",
            "Following this thread because of {}.",
            "Someone said {}, someone else said {}.",
            "Good question, {} comes up here so often.",
            "Let me bump this one for {}.",
            "Same here with {}, and sometimes with {}.",
        ),
    ),
    "wiki": Genre(
        titles=("{}", "{} (overview)", "Notes on {}"),
        sentences=(
            "{} is a term that is often mentioned together with {}.",
            "The word {} is found in many texts.",
            "There are several views of {}, and some of {}.",
            "This article on {} is a stub.",
            "For {} in other contexts, see {}.",
            "The history of {} is told elsewhere.",
            "Sources on {} and on {} are still missing.",
            "{} has its own place beside {}.",
            "Readers may extend the section on {}.",
            "A longer version of {} is planned.",
        ),
    ),
    "digest": Genre(
        titles=("This week: {}", "{} in brief", "What you missed on {}"),
        sentences=(
            "This week we talk about {}, and next week about {}.",
            "First the headlines: {}, {} and once more {}.",
            "Our readers wrote to us about {}.",
            "In the studio tonight: {}.",
            "We will keep you posted on {} and {}.",
            "And now to something else: {}.",
            "Much has been written on {}, and more will be written on {}.",
            "The topic of the month is {}.",
            "Stay tuned for {}.",
            "Share your thoughts on {} with us.",
        ),
    ),
    "course": Genre(
        titles=("Learn {} step by step", "Lesson one: {}", "{} for beginners"),
        sentences=(
            "In this lesson you will meet {} and then {}.",
            "Before we begin with {}, a word about {}.",
            "By the end you will have heard of {}.",
            "Take a moment and think of {}.",
            "Write down {} in your notebook, then {}.",
            "In the next lesson {} will return.",
            "Do not worry if {} is new to you.",
            "Repeat after us: {}, {}, {}.",
            "We will come back to {} later.",
            "Everyone can learn {}, and {} too.",
        ),
    ),
    "report": Genre(
        titles=("On {}: a summary", "{}: where we stand", "Remarks on {}"),
        sentences=(
            "The present paper is concerned with {} and with {}.",
            "In recent years {} has received attention.",
            "The importance of {} can hardly be overstated.",
            "With regard to {}, several aspects of {} come to mind.",
            "Section two turns to {}.",
            "The role of {} is discussed, as is that of {}.",
            "Further work on {} is called for.",
            "It is hoped that {} will be of interest.",
            "The authors thank all who spoke about {}.",
            "Taken together, {} and {} form a whole.",
        ),
    ),
}

_CHINESE = {
    "directory": Genre(
        titles=("{}大全", "{}：一页看完", "{}在这里"),
        sentences=(
            "关于{}的一切：这里有{}，这里讲{}。",
            "您要找的{}就在这里，{}也在这里。",
            "本页的主题是{}，还有{}。",
            "更多{}，请点击{}。",
            "查找{}的朋友也在查找{}。",
            "另见{}，或者返回{}。",
            "所有网页都按{}排列。",
            "名单很长，{}也在上面。",
            "欢迎收藏本页，随时查看{}。",
            "每周都会更新{}。",
        ),
    ),
    "shop": Genre(
        titles=("{}，首选我们", "{}热卖中", "想要{}？请进"),
        sentences=(
            "您在找{}吗？那么{}就是您想要的。",
            "我们把{}放在第一，把{}放在第二。",
            "欢迎向客服咨询{}。",
            "选择{}的顾客也都喜欢{}。",
            "现在下单{}，正是时候。",
            "不管是{}还是{}，您都来对了。",
            "今天订购，明天就能收到{}。",
            "别家只有{}，我们还有{}。",
            "我们的承诺包括{}，也包括{}。",
            "订阅我们，获取{}。",
        ),
    ),
    "forum": Genre(
        titles=("求助：{}", "有人聊聊{}吗", "{}讨论帖"),
        sentences=(
            "大家好，有人听过{}吗？",
            "最近老是听到{}，然后是{}，然后又是{}。",
            "邻居那天晚上提到{}。",
            "谢谢楼主分享{}！",
            "我也很想聊聊{}和{}。",
            "为了{}，先关注这个帖子。",
            "有人说{}，也有人说{}。",
            "好问题，{}在这里经常出现。",
            "帮楼主顶一下{}。",
            "我也一样，有时是{}，有时是{}。",
        ),
    ),
    "wiki": Genre(
        titles=("{}", "{}（概览）", "{}词条"),
        sentences=(
            "{}这个词经常与{}一起出现。",
            "在很多文章里都能看到{}。",
            "对于{}有几种看法，对于{}也有。",
            "{}词条还很短。",
            "其他意思的{}，请看{}。",
            "{}的历史，另有文章介绍。",
            "{}和{}的出处还有待补充。",
            "{}与{}各有各的位置。",
            "欢迎读者补充{}这一节。",
            "更长的{}正在编写。",
        ),
    ),
    "digest": Genre(
        titles=("本周话题：{}", "{}简讯", "一周回顾：{}"),
        sentences=(
            "这一周我们聊{}，下一周我们聊{}。",
            "先看标题：{}、{}，还是{}。",
            "读者来信谈到{}。",
            "今晚的节目里有{}。",
            "我们会继续关注{}和{}。",
            "接下来换个话题：{}。",
            "写{}的文章很多，写{}的文章会更多。",
            "本月的话题是{}。",
            "敬请期待{}。",
            "欢迎留言聊聊{}。",
        ),
    ),
    "course": Genre(
        titles=("一步一步学{}", "第一课：{}", "{}入门"),
        sentences=(
            "在这一课里，您会遇到{}，然后是{}。",
            "开始讲{}之前，先说一句{}。",
            "学完以后，您就听说过{}了。",
            "请停下来想一想{}。",
            "请在本子上写下{}，再写下{}。",
            "下一课{}还会出现。",
            "第一次听说{}也没关系。",
            "跟我们一起念：{}，{}，{}。",
            "{}我们以后还会再讲。",
            "人人都能学{}，也能学{}。",
        ),
    ),
    "report": Genre(
        titles=("{}概述", "{}综述", "浅谈{}"),
        sentences=(
            "本文谈谈{}，也谈谈{}。",
            "近年来，{}受到关注。",
            "{}的意义怎么说都不过分。",
            "就{}而言，很容易想到{}的几个方面。",
            "第二节转向{}。",
            "文中讨论{}的作用，也讨论{}的作用。",
            "{}还有待进一步讨论。",
            "希望{}能够引起兴趣。",
            "感谢所有谈论过{}的人。",
            "总的来看，{}和{}是一个整体。",
        ),
    ),
}

VOICES: Mapping[str, Voice] = {
    "en": Voice(
        genres=_ENGLISH,
        questions=(
            "What about this: {}?",
            "Is it so that {}?",
            "Who, when and why: {}?",
            "And what then of this: {}?",
            "Whether {}, you say?",
            "Do you also want it: {}?",
            "How so: {}?",
            "Could it be that {}?",
        ),
        rewordings=(
            "What, then, of {}?",
            "Is it {}, or not?",
            "Why {}, and how?",
            "Which of these: {}?",
        ),
        headings=("{}", "More on {}", "{}: what it is", "About {}", "{} and more"),
        asides=("({})", "(as with {})", "(and {} too)", "(see also {})"),
        pronoun="it",
        comma=", ",
        last=" and ",
        stop=".",
        opening="",
        closing="",
        space=" ",
    ),
    "zh": Voice(
        genres=_CHINESE,
        questions=(
            "请问：{}？",
            "您也想知道吗：{}？",
            "到底是什么：{}？",
            "何时、何处、为什么：{}？",
            "是不是这样：{}？",
            "怎么样才是：{}？",
            "大家也许想要知道：{}？",
            "有没有可能：{}？",
        ),
        rewordings=(
            "那么{}呢？",
            "是{}，还是不是？",
            "为什么是{}，又如何？",
            "是哪一个：{}？",
        ),
        headings=("{}", "关于{}", "{}是什么", "更多：{}", "{}等等"),
        asides=("（{}）", "（如：{}）", "（还有：{}）", "（包括：{}）"),
        pronoun="它",
        comma="、",
        last="、",
        stop="。",
        opening="“",
        closing="”",
        space="",
    ),
}
LANGUAGES = tuple(VOICES)
