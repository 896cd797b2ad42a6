"""Measure `cross_language_proxy`: AUC, its threshold's errors, turns per second. Needs the extra `embedding`.

Twelve English documents, each with a translated answer in six languages, written for this: an answer scored against
its own document should be near, against each of the other eleven far. It says nothing about small errors.
"""

# ruff: noqa: RUF001 -- Chinese has a comma of its own
from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

from monitor.errors import ConfigError
from monitor.judging.coded.closeness import THRESHOLD, local
from monitor.model.judgements import Finding
from monitor.model.turns import Citation, Turn

_WHEN = datetime(2026, 1, 1, tzinfo=UTC)

DOCUMENTS = (
    "Refunds are paid within 14 days, to the card that was used for the purchase.",
    "The museum is closed on Mondays and opens at ten o'clock on all other days.",
    "Reset the router by holding the button on its back for thirty seconds.",
    "Employees accrue two days of holiday for every month they have worked.",
    "The train to Utrecht leaves every half hour from platform five.",
    "Keep the vaccine between two and eight degrees and never freeze it.",
    "The tent weighs three kilos and sleeps four people; its fly resists rain.",
    "Invoices must be sent before the fifth of the month to be paid in time.",
    "Dogs are welcome in the garden but not inside the restaurant.",
    "The loan can be repaid early without a fee after the first year.",
    "Water the orchid once a week and keep it out of direct sunlight.",
    "To change your password, open the settings and choose security.",
)
ANSWERS = {
    "nl": (
        "Terugbetalingen worden binnen 14 dagen gedaan op de kaart waarmee is betaald.",
        "Het museum is op maandag gesloten en gaat op andere dagen om tien uur open.",
        "Zet de router terug door de knop achterop dertig seconden ingedrukt te houden.",
        "Werknemers bouwen per gewerkte maand twee vakantiedagen op.",
        "De trein naar Utrecht vertrekt elk half uur van spoor vijf.",
        "Bewaar het vaccin tussen twee en acht graden en vries het nooit in.",
        "De tent weegt drie kilo en biedt plaats aan vier personen.",
        "Facturen moeten voor de vijfde van de maand worden verstuurd.",
        "Honden zijn welkom in de tuin, maar niet in het restaurant.",
        "De lening kan na het eerste jaar zonder kosten vervroegd worden afgelost.",
        "Geef de orchidee eens per week water en houd haar uit de zon.",
        "Om uw wachtwoord te wijzigen opent u de instellingen en kiest u beveiliging.",
    ),
    "de": (
        "Erstattungen erfolgen innerhalb von 14 Tagen auf die verwendete Karte.",
        "Das Museum ist montags geschlossen und öffnet sonst um zehn Uhr.",
        "Setzen Sie den Router zurück, indem Sie die Taste hinten dreißig Sekunden halten.",
        "Mitarbeiter erwerben pro Arbeitsmonat zwei Urlaubstage.",
        "Der Zug nach Utrecht fährt jede halbe Stunde von Gleis fünf.",
        "Lagern Sie den Impfstoff zwischen zwei und acht Grad und frieren Sie ihn nie ein.",
        "Das Zelt wiegt drei Kilo und bietet Platz für vier Personen.",
        "Rechnungen müssen vor dem Fünften des Monats geschickt werden.",
        "Hunde sind im Garten willkommen, aber nicht im Restaurant.",
        "Der Kredit kann nach dem ersten Jahr gebührenfrei vorzeitig zurückgezahlt werden.",
        "Gießen Sie die Orchidee einmal pro Woche und meiden Sie direkte Sonne.",
        "Um Ihr Passwort zu ändern, öffnen Sie die Einstellungen und wählen Sie Sicherheit.",
    ),
    "fr": (
        "Les remboursements sont effectués sous 14 jours sur la carte utilisée.",
        "Le musée est fermé le lundi et ouvre à dix heures les autres jours.",
        "Réinitialisez le routeur en appuyant trente secondes sur le bouton arrière.",
        "Les employés acquièrent deux jours de congé par mois travaillé.",
        "Le train pour Utrecht part toutes les demi-heures du quai cinq.",
        "Conservez le vaccin entre deux et huit degrés et ne le congelez jamais.",
        "La tente pèse trois kilos et accueille quatre personnes.",
        "Les factures doivent être envoyées avant le cinq du mois.",
        "Les chiens sont admis dans le jardin mais pas dans le restaurant.",
        "Le prêt peut être remboursé par anticipation sans frais après la première année.",
        "Arrosez l'orchidée une fois par semaine, à l'abri du soleil direct.",
        "Pour changer de mot de passe, ouvrez les paramètres et choisissez sécurité.",
    ),
    "es": (
        "Los reembolsos se pagan en 14 días a la tarjeta utilizada.",
        "El museo cierra los lunes y abre a las diez los demás días.",
        "Reinicie el router manteniendo pulsado el botón trasero treinta segundos.",
        "Los empleados acumulan dos días de vacaciones por mes trabajado.",
        "El tren a Utrecht sale cada media hora del andén cinco.",
        "Guarde la vacuna entre dos y ocho grados y no la congele nunca.",
        "La tienda pesa tres kilos y caben cuatro personas.",
        "Las facturas deben enviarse antes del día cinco del mes.",
        "Los perros pueden entrar al jardín pero no al restaurante.",
        "El préstamo puede pagarse antes sin comisión tras el primer año.",
        "Riegue la orquídea una vez por semana y evite el sol directo.",
        "Para cambiar la contraseña, abra los ajustes y elija seguridad.",
    ),
    "ja": (
        "返金は14日以内に、購入に使ったカードに行われます。",
        "博物館は月曜日が休館で、他の日は十時に開きます。",
        "背面のボタンを三十秒押し続けるとルーターがリセットされます。",
        "従業員は働いた月ごとに二日の休暇を得ます。",
        "ユトレヒト行きの電車は五番線から三十分ごとに出ます。",
        "ワクチンは二度から八度で保管し、決して凍らせないでください。",
        "テントは重さ三キロで四人が寝られます。",
        "請求書は月の五日までに送らなければなりません。",
        "犬は庭には入れますが、レストランの中には入れません。",
        "ローンは一年後から手数料なしで早期返済できます。",
        "蘭には週に一度水をやり、直射日光を避けてください。",
        "パスワードを変更するには設定を開き、セキュリティを選びます。",
    ),
    "zh": (
        "退款将在14天内退回购买时使用的卡。",
        "博物馆周一闭馆，其他日子十点开门。",
        "按住背面的按钮三十秒即可重置路由器。",
        "员工每工作一个月可累积两天假期。",
        "去乌得勒支的火车每半小时从五号站台出发。",
        "疫苗应保存在二到八度之间，切勿冷冻。",
        "帐篷重三公斤，可睡四人。",
        "发票必须在每月五号之前寄出。",
        "狗可以进花园，但不能进餐厅。",
        "贷款在第一年后可以提前还清，不收费用。",
        "兰花每周浇一次水，避免阳光直射。",
        "要更改密码，请打开设置并选择安全。",
    ),
}


def main() -> None:
    """Print everything the module's docstring names."""
    try:
        metric = local("bench")
    except ConfigError as error:
        print(f"skipped: {error}")
        return
    everything: tuple[list[float], list[float]] = ([], [])
    started = time.process_time()
    for language, answers in ANSWERS.items():
        near, far = [], []
        for place, answer in enumerate(answers):
            for other, document in enumerate(DOCUMENTS):
                finding = metric.score(_turn(answer, document))
                if isinstance(finding, Finding) and finding.score is not None:
                    (near if place == other else far).append(finding.score)
        print(_row(language, near, far))
        everything[0].extend(near)
        everything[1].extend(far)
    taken = time.process_time() - started
    print(_row("all", *everything))
    print(f"threshold {THRESHOLD}; {sum(map(len, everything)) / taken:.0f} turns/s of one sentence and one passage")


def _row(name: str, near: list[float], far: list[float]) -> str:
    missed, flagged = sum(s < THRESHOLD for s in near), sum(s < THRESHOLD for s in far)
    above = sum((a > b) + (a == b) / 2 for a in near for b in far)
    return (
        f"{name:>4}  AUC {above / (len(near) * len(far)):.3f}  "
        f"flagged: {missed} of {len(near)} near, {flagged} of {len(far)} far"
    )


def _turn(answer: str, document: str) -> Turn:
    turn = Turn(turn_id="t", trace_id="t", span_id="s", app="bench", started_at=_WHEN, ended_at=_WHEN)
    return replace(turn, response=answer, citations=(Citation(id="d", content=document),))


if __name__ == "__main__":
    main()
